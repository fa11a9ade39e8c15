package headrace;

import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CommandResultExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.execution.datasources.V1WriteCommand;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;

/** Runs an INSERT of Spark or Hive with another directory in the place of its table. */
public class FileInsert {
    /**
     * Add the rows of an analysed command to a directory that belongs to no table.
     *
     * @param folder path below the directory that the command writes to; may be empty
     * @return the rows that the statement returns, and the number of rows written as a text, which
     *     is empty if Spark does not count them
     */
    public Object[] run(SparkSession session, V1WriteCommand command, String location,
            String folder) {
        Path root = new Path(location);
        Map noPartitions = (Map) Map$.MODULE$.empty();
        InsertIntoHadoopFsRelationCommand staged = new InsertIntoHadoopFsRelationCommand(
            folder.isEmpty() ? root : new Path(root, folder),
            folder.isEmpty() ? command.staticPartitions() : noPartitions,
            false,
            command.partitionColumns(),
            command.bucketSpec(),
            command.fileFormat(),
            command.options(),
            command.query(),
            SaveMode.Append,
            Option.empty(),
            Option.empty(),
            command.outputColumnNames());
        Dataset rows = Dataset$.MODULE$.ofRows(session, staged);
        CommandResultExec result = (CommandResultExec) rows.queryExecution().executedPlan();
        SparkPlan written = result.commandPhysicalPlan();
        if (written instanceof AdaptiveSparkPlanExec) {
            written = ((AdaptiveSparkPlanExec) written).executedPlan();
        }
        Option count = written.metrics().get("numOutputRows");
        String counted = count.isDefined()
            ? ((AccumulatorV2) count.get()).value().toString() : "";
        return new Object[] {rows, counted};
    }
}
