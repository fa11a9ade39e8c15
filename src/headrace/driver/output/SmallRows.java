package headrace;

import java.util.Arrays;
import java.util.Base64;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.CommandResultExec;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import scala.Option;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction0;

/** The rows of a small query. From Python, each step would be a round trip of its own. */
public class SmallRows {
    /** Bytes of rows in a batch: each one is a text in the memory of the JVM and of Python. */
    private static final long BATCH_BYTES = 4L * 1024 * 1024;

    /** Bytes to count for a row that does not know its size. */
    private static final long ROW_BYTES = 1024L;

    /**
     * Run a query with few rows as one SQL execution, and return its rows as Arrow record batches.
     *
     * <p>A batch is a message in base64: Py4J decodes a Java byte array in a loop in Python.
     *
     * @param maxRows largest number of rows, which must be certain before the query runs
     * @param name name of the action for Spark's listeners
     * @return the only batch; Batches if there are no rows or several batches; null if the query
     *     may have more rows, or needs no job
     */
    public Object collect(Dataset frame, long maxRows, String name) {
        final QueryExecution execution = frame.queryExecution();
        LogicalPlan optimized = execution.optimizedPlan();
        Option rowLimit = optimized.maxRows();
        if (isConstant(optimized) || rowLimit.isEmpty()
                || ((Long) rowLimit.get()).longValue() > maxRows) {
            return null;
        }
        final SparkPlan plan = execution.executedPlan();
        if (plan instanceof LocalTableScanExec || plan instanceof CommandResultExec) {
            return null;
        }
        AbstractFunction0 action = new AbstractFunction0() {
            public Object apply() {
                return plan.executeCollect();
            }
        };
        InternalRow[] rows = (InternalRow[])
            SQLExecution.withNewExecutionId(execution, Option.apply(name), action);
        long batchRows = countRowsOfBatch(rows);
        Batches batches = new Batches(ArrowConverters$.MODULE$.toBatchIterator(
            CollectionConverters.asScala(Arrays.asList(rows).iterator()),
            frame.schema(), batchRows, "UTC", false, false, null));
        if (rows.length == 0 || batchRows < rows.length) {
            return batches;
        }
        String batch = batches.next();
        batches.next(); // This releases the memory of the batch.
        return batch;
    }

    /** Return whether a query is a SELECT without FROM. */
    private static boolean isConstant(LogicalPlan plan) {
        return plan instanceof Project && ((Project) plan).child() instanceof OneRowRelation;
    }

    private static long countRowsOfBatch(InternalRow[] rows) {
        long bytes = 0L;
        for (int i = 0; i < rows.length; i++) {
            boolean hasSize = rows[i] instanceof UnsafeRow;
            bytes += hasSize ? ((UnsafeRow) rows[i]).getSizeInBytes() : ROW_BYTES;
        }
        return Math.max(1L, Math.min(rows.length, rows.length * BATCH_BYTES / Math.max(1L, bytes)));
    }

    /** The batches of a result, each of them encoded when it is asked for. */
    public static class Batches {
        private final Iterator messages;

        Batches(Iterator messages) {
            this.messages = messages;
        }

        /** Return the next batch; null after the last one. */
        public String next() {
            if (!messages.hasNext()) {
                return null;
            }
            return Base64.getEncoder().encodeToString((byte[]) messages.next());
        }

        /** Release the memory of the batch that was read last. */
        public void close() throws Exception {
            ((AutoCloseable) messages).close();
        }
    }
}
