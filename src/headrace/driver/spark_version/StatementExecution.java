package headrace;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.Date;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.TaskScheduler;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.TaskSetManager;
import org.apache.spark.sql.execution.ui.SQLAppStatusStore;
import org.apache.spark.sql.execution.ui.SQLExecutionUIData;
import org.apache.spark.sql.execution.ui.SQLPlanMetric;
import org.apache.spark.sql.execution.ui.SparkPlanGraph;
import org.apache.spark.sql.execution.ui.SparkPlanGraphCluster;
import org.apache.spark.sql.execution.ui.SparkPlanGraphEdge;
import org.apache.spark.sql.execution.ui.SparkPlanGraphNode;
import org.apache.spark.status.AppStatusStore;
import org.apache.spark.status.TaskDataWrapper;
import org.apache.spark.status.api.v1.JobData;
import org.apache.spark.status.api.v1.StageData;
import org.apache.spark.status.api.v1.StageStatus;
import org.apache.spark.util.kvstore.KVStoreIterator;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.Map;

/**
 * The plans and stages of a statement, from the stores that also feed Spark's UI.
 *
 * <p>Janino compiles this class: it has no generics and no lambdas.
 */
public class StatementExecution {
    /** Index of tasks by duration, see Spark's TaskIndexNames. */
    private static final String BY_DURATION = "dur";

    /** A statement has one plan; a script may have many. */
    private static final int MAX_PLANS = 20;

    /** Characters of one plan. A longer one is cut later, when its secrets are hidden. */
    private static final int MAX_PLAN = 256 * 1024;

    private static final int MAX_TEXT = 4096;

    private static final String ROWS_METRIC = "number of output rows";

    private static final List ZEROS = Arrays.asList(new Object[] {"0", "0 ms", "0.0 B", "0.0"});

    /** Number of tasks whose durations are read: a sort of so many takes a tenth of a second. */
    private static final int MAX_TASKS = 100000;

    private static final long MAX_NANOS = 2000000000L;

    private final ObjectNode result = JsonNodeFactory.instance.objectNode();
    private long deadline;
    private int tasksRead;
    private int maxStages;
    private int maxOperators;
    private int maxMetrics;
    private int operatorsOmitted;

    /**
     * Return the plans and stages of the jobs with a tag as a JSON object; null if there is no job.
     *
     * @param waitMillis longest time to wait for the events of tasks that have ended
     */
    public String read(SparkContext context, SQLAppStatusStore plans, String tag, long waitMillis,
            int maxStages, int maxOperators, int maxMetrics) {
        try {
            context.listenerBus().waitUntilEmpty(waitMillis);
        } catch (TimeoutException error) {
            // Other statements keep the bus busy. The numbers are too low.
        }
        int[] jobs = context.statusTracker().getJobIdsForTag(tag);
        if (jobs.length == 0) {
            return null;
        }
        StatementExecution reader = new StatementExecution();
        reader.deadline = System.nanoTime() + MAX_NANOS;
        reader.maxStages = maxStages;
        reader.maxOperators = maxOperators;
        reader.maxMetrics = maxMetrics;
        TreeSet executions = new TreeSet();
        reader.addStages(context, jobs, executions);
        reader.addPlans(plans, executions);
        return reader.result.toString();
    }

    private void addStages(SparkContext context, int[] jobs, Set executions) {
        AppStatusStore store = context.statusStore();
        List stages = new ArrayList();
        Set ids = new HashSet();
        for (int i = 0; i < jobs.length; i++) {
            Tuple2 found;
            try {
                found = store.jobWithAssociatedSql(jobs[i]);
            } catch (NoSuchElementException error) {
                continue; // Spark has evicted it.
            }
            Option execution = (Option) found._2();
            if (execution.isDefined()) {
                executions.add(execution.get());
            }
            Iterator stageIds = ((JobData) found._1()).stageIds().iterator();
            while (stageIds.hasNext()) {
                Object id = stageIds.next();
                if (ids.add(id)) {
                    addAttempts(store, ((Integer) id).intValue(), stages);
                }
            }
        }
        result.put("tasks_active", countActiveTasks(context.taskScheduler(), stages));
        Collections.sort(stages, new ByImportance());
        List chosen = stages.subList(0, Math.min(stages.size(), maxStages));
        ArrayNode nodes = result.putArray("stages");
        List sorted = new ArrayList(chosen);
        Collections.sort(sorted, new ById());
        for (int i = 0; i < sorted.size(); i++) {
            addStage(store, (StageData) sorted.get(i), nodes.addObject());
        }
        result.put("stages_omitted", stages.size() - sorted.size());
    }

    /**
     * Return the number of tasks that run. A task that a cancel kills runs until it notices.
     *
     * <p>The store learns of the end of a task later than the scheduler.
     */
    private static int countActiveTasks(TaskScheduler scheduler, List stages) {
        int count = 0;
        for (int i = 0; scheduler instanceof TaskSchedulerImpl && i < stages.size(); i++) {
            StageData stage = (StageData) stages.get(i);
            Option tasks = ((TaskSchedulerImpl) scheduler)
                .taskSetManagerForAttempt(stage.stageId(), stage.attemptId());
            count += tasks.isDefined() ? ((TaskSetManager) tasks.get()).runningTasks() : 0;
        }
        return count;
    }

    /** Add the attempts of a stage that Spark has not skipped. */
    private static void addAttempts(AppStatusStore store, int id, List stages) {
        Iterator attempts;
        try {
            attempts = store.stageData(
                id, false, Collections.EMPTY_LIST, false, new double[0]).iterator();
        } catch (NoSuchElementException error) {
            return; // Spark has evicted it.
        }
        while (attempts.hasNext()) {
            StageData stage = (StageData) attempts.next();
            if (stage.status() != StageStatus.SKIPPED) {
                stages.add(stage);
            }
        }
    }

    private void addStage(AppStatusStore store, StageData stage, ObjectNode node) {
        node.put("id", stage.stageId());
        node.put("attempt", stage.attemptId());
        node.put("name", cut(stage.name(), MAX_TEXT));
        node.put("state", stage.status().name().toLowerCase());
        putTime(node, "started_millis", stage.submissionTime());
        putTime(node, "ended_millis", stage.completionTime());
        node.put("tasks_total", stage.numTasks());
        node.put("tasks_done", stage.numCompleteTasks());
        node.put("tasks_failed", stage.numFailedTasks());
        node.put("tasks_killed", stage.numKilledTasks());
        node.put("run_millis", stage.executorRunTime());
        node.put("rows_read", stage.inputRecords());
        node.put("bytes_read", stage.inputBytes());
        node.put("rows_written", stage.outputRecords());
        node.put("bytes_written", stage.outputBytes());
        node.put("shuffle_rows_read", stage.shuffleReadRecords());
        node.put("shuffle_bytes_read", stage.shuffleReadBytes());
        node.put("shuffle_rows_written", stage.shuffleWriteRecords());
        node.put("shuffle_bytes_written", stage.shuffleWriteBytes());
        node.put("memory_bytes_spilled", stage.memoryBytesSpilled());
        node.put("disk_bytes_spilled", stage.diskBytesSpilled());
        Option failure = stage.failureReason();
        node.put("failure", failure.isDefined() ? cut((String) failure.get(), MAX_TEXT) : null);
        addDurations(store, stage, node);
    }

    /**
     * Add the median and the longest duration of the tasks that have succeeded.
     *
     * <p>Spark's taskSummary sorts the tasks by each of its metrics, and not by their duration only.
     */
    private void addDurations(AppStatusStore store, StageData stage, ObjectNode node) {
        int tasks = stage.numCompleteTasks();
        if (tasks == 0 || tasks > MAX_TASKS - tasksRead || System.nanoTime() > deadline) {
            return;
        }
        tasksRead += tasks;
        long[] durations = new long[tasks];
        int count = 0;
        KVStoreIterator iterator = null;
        try {
            iterator = store.store().view(TaskDataWrapper.class)
                .parent(new int[] {stage.stageId(), stage.attemptId()})
                .index(BY_DURATION)
                .closeableIterator();
            while (iterator.hasNext() && count < tasks) {
                TaskDataWrapper task = (TaskDataWrapper) iterator.next();
                if ("SUCCESS".equals(task.status())) {
                    durations[count++] = Math.max(0L, task.duration());
                }
            }
        } catch (Exception error) {
            return; // A store of another form. The durations are missing.
        } finally {
            close(iterator);
        }
        if (count > 0) {
            node.put("median_task_millis", durations[count / 2]);
            node.put("longest_task_millis", durations[count - 1]);
        }
    }

    private static void close(KVStoreIterator iterator) {
        try {
            if (iterator != null) {
                iterator.close();
            }
        } catch (Exception error) {
            // It is of no use any more.
        }
    }

    private void addPlans(SQLAppStatusStore store, TreeSet executions) {
        StringBuilder text = new StringBuilder();
        ArrayNode operators = result.putArray("operators");
        java.util.Iterator ids = executions.iterator();
        int count = 0;
        while (ids.hasNext() && count < MAX_PLANS) {
            long id = ((Long) ids.next()).longValue();
            Option execution = store.execution(id);
            if (execution.isDefined()) {
                String plan = ((SQLExecutionUIData) execution.get()).physicalPlanDescription();
                text.append(text.length() == 0 ? "" : "\n\n").append(cut(plan.trim(), MAX_PLAN));
                addOperators(store, id, operators);
                count++;
            }
        }
        result.put("plan", text.length() == 0 ? null : cut(text.toString(), MAX_PLAN));
        result.put("operators_omitted", operatorsOmitted);
    }

    /** Add the operators of a plan, each before its inputs. */
    private void addOperators(SQLAppStatusStore store, long execution, ArrayNode operators) {
        SparkPlanGraph graph;
        try {
            graph = store.planGraph(execution);
        } catch (NoSuchElementException error) {
            return; // Spark has evicted it.
        }
        Map values = store.executionMetrics(execution);
        java.util.Map nodes = new HashMap();
        java.util.Map clusters = new HashMap();
        Set roots = new LinkedHashSet();
        collectNodes(graph, nodes, clusters, roots);
        java.util.Map inputs = new HashMap();
        Iterator edges = graph.edges().iterator();
        while (edges.hasNext()) {
            SparkPlanGraphEdge edge = (SparkPlanGraphEdge) edges.next();
            Long to = Long.valueOf(edge.toId());
            if (!inputs.containsKey(to)) {
                inputs.put(to, new ArrayList());
            }
            ((List) inputs.get(to)).add(Long.valueOf(edge.fromId()));
            roots.remove(Long.valueOf(edge.fromId()));
        }
        // A stack of ids and depths: a plan may be deeper than the stack of the thread.
        List stack = new ArrayList();
        java.util.Iterator tops = roots.iterator();
        while (tops.hasNext()) {
            stack.add(0, new Object[] {tops.next(), Integer.valueOf(0)});
        }
        Set seen = new HashSet();
        while (!stack.isEmpty()) {
            Object[] next = (Object[]) stack.remove(stack.size() - 1);
            SparkPlanGraphNode node = (SparkPlanGraphNode) nodes.get(next[0]);
            // Several operators may read one exchange.
            if (node == null || !seen.add(next[0])) {
                continue;
            }
            int depth = ((Integer) next[1]).intValue();
            addOperator(node, (SparkPlanGraphNode) clusters.get(next[0]), depth, values, operators);
            List below = (List) inputs.get(next[0]);
            for (int i = below == null ? -1 : below.size() - 1; i >= 0; i--) {
                stack.add(new Object[] {below.get(i), Integer.valueOf(depth + 1)});
            }
        }
    }

    /** Find the operators of a graph, and for the first one of each cluster the cluster itself. */
    private static void collectNodes(
            SparkPlanGraph graph, java.util.Map nodes, java.util.Map clusters, Set roots) {
        Iterator all = graph.allNodes().iterator();
        while (all.hasNext()) {
            SparkPlanGraphNode node = (SparkPlanGraphNode) all.next();
            if (node instanceof SparkPlanGraphCluster) {
                SparkPlanGraphCluster cluster = (SparkPlanGraphCluster) node;
                if (!cluster.nodes().isEmpty()) {
                    SparkPlanGraphNode first = (SparkPlanGraphNode) cluster.nodes().head();
                    clusters.put(Long.valueOf(first.id()), cluster);
                }
            } else {
                nodes.put(Long.valueOf(node.id()), node);
                roots.add(Long.valueOf(node.id()));
            }
        }
    }

    private void addOperator(SparkPlanGraphNode node, SparkPlanGraphNode cluster, int depth,
            Map values, ArrayNode operators) {
        if (operators.size() >= maxOperators) {
            operatorsOmitted++;
            return;
        }
        ObjectNode operator = operators.addObject();
        operator.put("depth", depth);
        operator.put("name", cut(node.name().trim(), MAX_TEXT));
        ObjectNode metrics = operator.putObject("metrics");
        addMetrics(node, "", values, metrics);
        if (cluster != null) {
            addMetrics(cluster, cluster.name().trim() + " ", values, metrics);
        }
    }

    private void addMetrics(
            SparkPlanGraphNode node, String prefix, Map values, ObjectNode metrics) {
        Iterator all = node.metrics().iterator();
        while (all.hasNext() && metrics.size() < maxMetrics) {
            SQLPlanMetric metric = (SQLPlanMetric) all.next();
            Option value = values.get(Long.valueOf(metric.accumulatorId()));
            if (value.isDefined() && isShown(metric.name(), (String) value.get())) {
                metrics.put(
                    cut(prefix + metric.name(), MAX_TEXT), cut((String) value.get(), MAX_TEXT));
            }
        }
    }

    /** Return whether a metric says something: most of the twenty of an exchange are 0. */
    private static boolean isShown(String name, String value) {
        return name.equals(ROWS_METRIC) || !ZEROS.contains(value);
    }

    private static void putTime(ObjectNode node, String name, Option time) {
        if (time.isDefined()) {
            node.put(name, ((Date) time.get()).getTime());
        }
    }

    private static String cut(String text, int limit) {
        return text.length() <= limit ? text : text.substring(0, limit);
    }

    /** Stages that have failed first, then those that took the longest. */
    private static class ByImportance implements Comparator {
        public int compare(Object one, Object other) {
            StageData a = (StageData) one;
            StageData b = (StageData) other;
            boolean failed = a.status() == StageStatus.FAILED;
            if (failed != (b.status() == StageStatus.FAILED)) {
                return failed ? -1 : 1;
            }
            return Long.compare(b.executorRunTime(), a.executorRunTime());
        }
    }

    private static class ById implements Comparator {
        public int compare(Object one, Object other) {
            StageData a = (StageData) one;
            StageData b = (StageData) other;
            int order = Integer.compare(a.stageId(), b.stageId());
            return order != 0 ? order : Integer.compare(a.attemptId(), b.attemptId());
        }
    }
}
