package headrace;

import java.util.Arrays;
import java.util.Collections;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import scala.Option;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction0;

/** The rows of a small query. From Python, each step would be a round trip of its own. */
public class SmallRows {
    /** Bytes of rows in a batch. Py4J sends a batch as one text in base64. */
    private static final long BATCH_BYTES = 4L * 1024 * 1024;

    /** Bytes to count for a row that does not know its size. */
    private static final long ROW_BYTES = 1024L;

    /**
     * Run a query as one SQL execution, and return its rows as Arrow record batches.
     *
     * @param name name of the action for Spark's listeners
     * @return the message of the only batch, as bytes; an iterator of messages if there are no rows
     *     or several batches
     */
    public Object collect(Dataset frame, String name) {
        final QueryExecution execution = frame.queryExecution();
        AbstractFunction0 action = new AbstractFunction0() {
            public Object apply() {
                return execution.executedPlan().executeCollect();
            }
        };
        InternalRow[] rows = (InternalRow[])
            SQLExecution.withNewExecutionId(execution, Option.apply(name), action);
        if (rows.length == 0) {
            return Collections.emptyIterator();
        }
        long batchRows = countRowsOfBatch(rows);
        Iterator batches = ArrowConverters$.MODULE$.toBatchIterator(
            CollectionConverters.asScala(Arrays.asList(rows).iterator()),
            frame.schema(), batchRows, "UTC", false, false, null);
        if (batchRows < rows.length) {
            return batches;
        }
        Object batch = batches.next();
        batches.hasNext(); // This releases the memory of the batch.
        return batch;
    }

    private static long countRowsOfBatch(InternalRow[] rows) {
        long bytes = 0L;
        for (int i = 0; i < rows.length; i++) {
            boolean hasSize = rows[i] instanceof UnsafeRow;
            bytes += hasSize ? ((UnsafeRow) rows[i]).getSizeInBytes() : ROW_BYTES;
        }
        return Math.max(1L, Math.min(rows.length, rows.length * BATCH_BYTES / Math.max(1L, bytes)));
    }
}
