package headrace;

import java.util.Iterator;
import java.util.LinkedHashMap;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.util.QueryExecutionListener;
import scala.Tuple2;

/**
 * Keeps the counts of DataFrame.observe, by the name of the observation.
 *
 * Spark's Observation ends with the first query whose logical plan has the node of the observation.
 * The CTAS of Delta first runs such a query that writes no rows, then the one that writes the rows.
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
        // No caller takes the counts of a statement that fails: they would stay for ever.
        Iterator oldest = kept.keySet().iterator();
        while (kept.size() > MAX_KEPT) {
            oldest.next();
            oldest.remove();
        }
    }

    public void onFailure(String function, QueryExecution query, Exception error) {
    }

    /** Remove and return the counts of an observation; null if there are none. */
    public synchronized Row take(String name) {
        return (Row) kept.remove(name);
    }
}
