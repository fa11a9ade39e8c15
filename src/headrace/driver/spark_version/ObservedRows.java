package headrace;

import java.util.Iterator;
import java.util.LinkedHashMap;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.util.QueryExecutionListener;
import scala.Tuple2;

/**
 * The counts that DataFrame.observe has added to the queries of sessions, by name.
 *
 * Spark's Observation ends with the first query that has its node in the logical plan. The CTAS of
 * Delta has such a query that runs nothing, before the one that writes the rows.
 */
public class ObservedRows implements QueryExecutionListener {
    private static final int MAX_KEPT = 100;

    private final LinkedHashMap kept = new LinkedHashMap();

    public synchronized void onSuccess(String function, QueryExecution query, long nanoseconds) {
        scala.collection.Iterator metrics = query.observedMetrics().iterator();
        while (metrics.hasNext()) {
            Tuple2 metric = (Tuple2) metrics.next();
            kept.put(metric._1(), metric._2());
        }
        // Nothing takes the counts of a statement that fails.
        Iterator oldest = kept.keySet().iterator();
        while (kept.size() > MAX_KEPT) {
            oldest.next();
            oldest.remove();
        }
    }

    public void onFailure(String function, QueryExecution query, Exception error) {
    }

    /** Return the counts of a name, which are then forgotten, or null. */
    public synchronized Row take(String name) {
        return (Row) kept.remove(name);
    }
}
