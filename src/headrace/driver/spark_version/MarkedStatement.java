package headrace;

import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.iceberg.spark.CommitMetadata;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;

/**
 * Runs a DELETE, UPDATE or MERGE on an Iceberg table, whose snapshot gets properties.
 *
 * <p>Iceberg ignores the session's configuration when it deletes whole files.
 */
public class MarkedStatement implements Callable {
    private SparkSession session;
    private LogicalPlan plan;

    /** Return the rows of the statement. */
    public Object run(Map properties, SparkSession session, LogicalPlan plan) throws Exception {
        MarkedStatement marked = new MarkedStatement();
        marked.session = session;
        marked.plan = plan;
        return CommitMetadata.withCommitProperties(properties, marked, Exception.class);
    }

    /** Run the plan. */
    public Object call() {
        return Dataset$.MODULE$.ofRows(session, plan);
    }
}
