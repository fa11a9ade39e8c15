package headrace;

import java.util.Collections;
import java.util.HashSet;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.TaskScheduler;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.TaskSetManager;
import org.apache.spark.sql.execution.ui.SQLAppStatusStore;
import org.apache.spark.sql.execution.ui.SQLExecutionUIData;
import org.apache.spark.sql.execution.ui.SQLPlanMetric;
import org.apache.spark.sql.execution.ui.SparkPlanGraphNode;
import org.apache.spark.status.AppStatusStore;
import org.apache.spark.status.api.v1.JobData;
import org.apache.spark.status.api.v1.StageData;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.Seq;
import scala.collection.immutable.Map;

/** What Spark counts for a statement, which would take a call from Python for each number. */
public class StatementMetrics {
    /** Number of SQL executions to read at once, from the latest. */
    private static final int PAGE = 50;

    private static final String ROWS_METRIC = "number of output rows";

    /** Beginning of the names of commands in plan graphs. Only writes count output rows. */
    private static final String COMMAND_PREFIX = "Execute ";

    private long jobCount;
    private long stagesDone;
    private long stagesTotal;
    private long tasksDone;
    private long tasksTotal;
    private long tasksActive;
    private long tasksFailed;
    private long rowsRead;
    private long bytesRead;
    private long rowsWritten;
    private long bytesWritten;

    /**
     * Return the progress of the jobs with a tag as a JSON object with the fields of Progress in
     * Python; null if there is no such job.
     *
     * @param endedMillis 0 while tasks may still run; otherwise the longest time to wait for the
     *     events of tasks that have ended
     */
    public String readProgress(SparkContext context, String tag, long endedMillis) {
        boolean running = endedMillis == 0L;
        if (!running) {
            try {
                context.listenerBus().waitUntilEmpty(endedMillis);
            } catch (TimeoutException error) {
                // Other statements keep the bus busy. The numbers are too low.
            }
        }
        int[] jobs = context.statusTracker().getJobIdsForTag(tag);
        if (jobs.length == 0) {
            return null;
        }
        StatementMetrics sums = new StatementMetrics();
        for (int i = 0; i < jobs.length; i++) {
            sums.addJob(context, jobs[i], running);
        }
        return "{\"jobs\": " + sums.jobCount
            + ", \"stages_done\": " + sums.stagesDone
            + ", \"stages_total\": " + sums.stagesTotal
            + ", \"tasks_done\": " + sums.tasksDone
            + ", \"tasks_total\": " + sums.tasksTotal
            + ", \"tasks_active\": " + sums.tasksActive
            + ", \"tasks_failed\": " + sums.tasksFailed
            + ", \"rows_read\": " + sums.rowsRead
            + ", \"bytes_read\": " + sums.bytesRead
            + ", \"rows_written\": " + sums.rowsWritten
            + ", \"bytes_written\": " + sums.bytesWritten + "}";
    }

    /**
     * Return the rows that the write commands in the SQL executions of jobs have written.
     *
     * <p>The number is -1 if no write command has counted its rows.
     */
    public long countWrittenRows(SQLAppStatusStore store, int[] jobs) {
        Set wanted = new HashSet();
        for (int i = 0; i < jobs.length; i++) {
            wanted.add(Integer.valueOf(jobs[i]));
        }
        long sum = -1L;
        for (int end = (int) store.executionsCount(); end > 0 && !wanted.isEmpty(); end -= PAGE) {
            int start = Math.max(0, end - PAGE);
            Seq executions = store.executionsList(start, end - start);
            for (int i = executions.size() - 1; i >= 0; i--) {
                SQLExecutionUIData execution = (SQLExecutionUIData) executions.apply(i);
                if (removeJobs(execution, wanted)) {
                    sum = add(sum, countRows(store, execution.executionId()));
                }
            }
        }
        return sum;
    }

    /** Remove the jobs of an execution from a set, and return whether the set had any of them. */
    private static boolean removeJobs(SQLExecutionUIData execution, Set wanted) {
        boolean isWanted = false;
        Iterator jobs = execution.jobs().keysIterator();
        while (jobs.hasNext()) {
            isWanted |= wanted.remove(jobs.next());
        }
        return isWanted;
    }

    /** Return the sum of two counts, of which -1 stands for none. */
    private static long add(long sum, long rows) {
        return rows < 0 ? sum : Math.max(0L, sum) + rows;
    }

    private void addJob(SparkContext context, int id, boolean running) {
        JobData job;
        try {
            job = context.statusStore().job(id);
        } catch (NoSuchElementException error) {
            return; // Spark has evicted it.
        }
        jobCount += 1;
        stagesDone += job.numCompletedStages() + job.numSkippedStages();
        stagesTotal += job.stageIds().size();
        tasksDone += job.numCompletedTasks() + job.numSkippedTasks();
        tasksTotal += job.numTasks();
        tasksFailed += job.numFailedTasks();
        Iterator stages = job.stageIds().iterator();
        while (stages.hasNext()) {
            addStage(context, ((Integer) stages.next()).intValue(), running);
        }
    }

    private void addStage(SparkContext context, int id, boolean running) {
        StageData stage = findLastAttempt(context.statusStore(), id);
        if (stage == null) {
            return; // It has not started, or Spark has evicted it.
        }
        tasksActive += running ? countActiveTasks(context.taskScheduler(), stage) : 0;
        rowsRead += stage.inputRecords();
        bytesRead += stage.inputBytes();
        rowsWritten += stage.outputRecords();
        bytesWritten += stage.outputBytes();
    }

    /**
     * Return the last attempt of a stage; null if there is none.
     *
     * <p>Spark's lastStageAttempt sorts all stages of the application. This reads attempt after
     * attempt by its key: most stages have only one.
     */
    private static StageData findLastAttempt(AppStatusStore store, int id) {
        StageData last = null;
        try {
            for (int attempt = 0; ; attempt++) {
                last = (StageData) store.stageAttempt(
                    id, attempt, false, Collections.EMPTY_LIST, false, new double[0])._1();
            }
        } catch (NoSuchElementException error) {
            return last == null ? findLaterAttempt(store, id) : last;
        }
    }

    /** Return the last attempt of a stage whose first attempt is not there; null if none is. */
    private static StageData findLaterAttempt(AppStatusStore store, int id) {
        try {
            return store.lastStageAttempt(id);
        } catch (NoSuchElementException error) {
            return null;
        }
    }

    private static int countActiveTasks(TaskScheduler scheduler, StageData stage) {
        if (!(scheduler instanceof TaskSchedulerImpl)) {
            return 0; // A scheduler of a third party.
        }
        Option tasks = ((TaskSchedulerImpl) scheduler)
            .taskSetManagerForAttempt(stage.stageId(), stage.attemptId());
        return tasks.isDefined() ? ((TaskSetManager) tasks.get()).runningTasks() : 0;
    }

    private static long countRows(SQLAppStatusStore store, long execution) {
        Map values = store.executionMetrics(execution);
        Iterator nodes = store.planGraph(execution).allNodes().iterator();
        long rows = -1L;
        while (nodes.hasNext()) {
            SparkPlanGraphNode node = (SparkPlanGraphNode) nodes.next();
            Iterator metrics = node.metrics().iterator();
            while (node.name().startsWith(COMMAND_PREFIX) && metrics.hasNext()) {
                SQLPlanMetric metric = (SQLPlanMetric) metrics.next();
                Option value = values.get(Long.valueOf(metric.accumulatorId()));
                if (metric.name().equals(ROWS_METRIC) && value.isDefined()) {
                    String text = ((String) value.get()).replace(",", "");
                    rows = add(rows, Long.parseLong(text));
                }
            }
        }
        return rows;
    }
}
