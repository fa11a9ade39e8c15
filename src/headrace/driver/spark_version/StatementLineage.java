package headrace;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Method;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import scala.Option;
import scala.collection.Iterable;
import scala.collection.Iterator;

/**
 * The tables that an analysed plan reads and writes, as JSON.
 *
 * <p>Janino compiles this class: it has no generics and no lambdas. Classes of Delta, Hive and
 * Iceberg may be missing, and are known by their names.
 */
public class StatementLineage {
    private static final int MAX_NODES = 20000;
    private static final int MAX_PATHS = 20;
    private static final int MAX_NAME = 255;
    private static final String SESSION_CATALOG = "spark_catalog";

    /** Commands that write, with the method that returns their target. */
    private static final Map TARGETS = new HashMap();

    /** Commands that change rows of a table, which they read to find the rows. */
    private static final Set ROW_CHANGES = new HashSet();

    /** Plans whose inputs they read by name: the other columns of the inputs are not read. */
    private static final Set NARROWING =
        new HashSet(Arrays.asList(new Object[] {"Project", "Aggregate", "Window", "Expand"}));

    /** Plans that read all columns of their inputs. */
    private static final Set WHOLE = new HashSet(Arrays.asList(new Object[] {
        "Union", "Except", "Intersect", "Distinct", "CTERelationDef", "Deduplicate"}));

    static {
        String[] insert = {"AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic",
            "InsertIntoHiveTable", "CreateDataSourceTableAsSelectCommand", "LoadDataCommand",
            "TruncateTable", "TruncatePartition", "DeltaDynamicPartitionOverwriteCommand"};
        put(insert, "table");
        put(new String[] {"InsertIntoHadoopFsRelationCommand"}, "catalogTable");
        put(new String[] {"CreateHiveTableAsSelectCommand"}, "tableDesc");
        put(new String[] {"InsertIntoDataSourceCommand"}, "logicalRelation");
        put(new String[] {"InsertIntoDataSourceDirCommand", "InsertIntoHiveDirCommand"}, "storage");
        put(new String[] {"CreateTableAsSelect", "ReplaceTableAsSelect", "AlterViewAsCommand"},
            "name");
        put(new String[] {"TruncateTableCommand"}, "tableName");
        String[] changes = {"DeleteFromTable", "UpdateTable", "ReplaceData", "WriteDelta"};
        put(changes, "table");
        put(new String[] {"MergeIntoTable"}, "targetTable");
        String[] delta = {"MergeIntoCommand", "DeleteCommand", "UpdateCommand", "DeltaMergeInto"};
        put(delta, "target");
        put(new String[] {"DeltaDelete", "DeltaUpdateTable"}, "child");
        ROW_CHANGES.addAll(Arrays.asList(changes));
        ROW_CHANGES.addAll(Arrays.asList(delta));
        ROW_CHANGES.addAll(Arrays.asList(
            new String[] {"MergeIntoTable", "DeltaDelete", "DeltaUpdateTable"}));
    }

    private String viewProperty;
    private final Map tables = new LinkedHashMap();
    private final Set changedKeys = new HashSet();
    private final Set referenced = new HashSet();
    private final List relations = new ArrayList();
    private final IdentityHashMap seen = new IdentityHashMap();

    private static void put(String[] names, String method) {
        for (int i = 0; i < names.length; i++) {
            TARGETS.put(names[i], method);
        }
    }

    /** Return the tables of the plan of a frame. */
    public String ofFrame(Dataset frame, String viewProperty, int maxTables, int maxColumns) {
        return ofPlan(frame.queryExecution().analyzed(), viewProperty, maxTables, maxColumns);
    }

    /**
     * Return the tables of an analysed plan.
     *
     * @param viewProperty property of a view that is a materialized view
     */
    public String ofPlan(LogicalPlan plan, String viewProperty, int maxTables, int maxColumns) {
        StatementLineage lineage = new StatementLineage();
        lineage.viewProperty = viewProperty;
        lineage.walk(plan);
        for (int i = 0; i < lineage.relations.size(); i++) {
            Object[] relation = (Object[]) lineage.relations.get(i);
            lineage.addRead((LogicalPlan) relation[0], ((Boolean) relation[1]).booleanValue());
        }
        return lineage.toJson(maxTables, maxColumns);
    }

    private void walk(LogicalPlan root) {
        List stack = new ArrayList();
        push(stack, root, true);
        int count = 0;
        while (!stack.isEmpty() && count++ < MAX_NODES) {
            Object[] next = (Object[]) stack.remove(stack.size() - 1);
            LogicalPlan plan = (LogicalPlan) next[0];
            boolean isWhole = ((Boolean) next[1]).booleanValue();
            Object earlier = seen.put(plan, next[1]);
            if (earlier != null && (!isWhole || Boolean.TRUE.equals(earlier))) {
                continue;
            }
            visit(plan, isWhole, stack);
        }
    }

    private static void push(List stack, Object plan, boolean isWhole) {
        if (plan instanceof LogicalPlan) {
            stack.add(new Object[] {plan, Boolean.valueOf(isWhole)});
        }
    }

    private void visit(LogicalPlan plan, boolean isWhole, List stack) {
        String kind = kindOf(plan);
        if (kind.equals("CommandResult")) {
            push(stack, call(plan, "commandLogicalPlan"), true);
            return;
        }
        if (kind.equals("CreateViewCommand") || kind.equals("AlterViewAsCommand")) {
            addView(plan, stack);
            return;
        }
        Object[] relation = {plan, Boolean.valueOf(isWhole)};
        if (isRelation(kind)) {
            relations.add(relation);
            return;
        }
        if (plan instanceof View && !((View) plan).isTempView()) {
            relations.add(relation);
            if (((View) plan).desc().properties().contains(viewProperty)) {
                return; // A materialized view has its rows in a table of its own.
            }
        }
        boolean isCommand = plan instanceof Command;
        if (isCommand || TARGETS.containsKey(kind)) {
            addTarget(plan, kind);
        }
        Iterator used = plan.references().iterator();
        while (used.hasNext()) {
            referenced.add(Long.valueOf(((Attribute) used.next()).exprId().id()));
        }
        boolean inputsAreWhole =
            isCommand || WHOLE.contains(kind) || isWhole && !NARROWING.contains(kind);
        pushAll(stack, plan.children(), inputsAreWhole);
        if (TARGETS.containsKey(kind)) {
            // An analysed CREATE TABLE AS SELECT, and a MERGE of Delta, have no children.
            push(stack, call(plan, "query"), true);
            push(stack, call(plan, "source"), false);
        }
        pushAll(stack, plan.subqueries(), true);
    }

    private static void pushAll(List stack, Iterable plans, boolean isWhole) {
        Iterator each = plans.iterator();
        while (each.hasNext()) {
            push(stack, each.next(), isWhole);
        }
    }

    private static boolean isRelation(String kind) {
        return kind.equals("LogicalRelation") || kind.equals("HiveTableRelation")
            || kind.equals("DataSourceV2Relation") || kind.equals("StreamingRelationV2")
            || kind.equals("StreamingRelation");
    }

    /** Add a view that is created or changed, unless it ends with its session. */
    private void addView(LogicalPlan plan, List stack) {
        Object type = call(plan, "viewType");
        if (type != null && !type.toString().startsWith("PersistedView")) {
            return;
        }
        Object query = call(plan, type == null ? "query" : "plan");
        List columns = query instanceof LogicalPlan ? outputOf((LogicalPlan) query, null) : null;
        describe(call(plan, "name"), "write", columns);
        push(stack, query, true);
    }

    private void addTarget(LogicalPlan plan, String kind) {
        if (kind.equals("SaveIntoDataSourceCommand")) {
            describeOptions(call(plan, "options"), "write", null);
            return;
        }
        String method = (String) TARGETS.get(kind);
        if (method == null) {
            return;
        }
        Object target = unwrap(call(plan, method));
        if (target == null && kind.equals("InsertIntoHadoopFsRelationCommand")) {
            addLocation(call(plan, "outputPath"), "write", namesOf(plan));
            return;
        }
        String key = describe(target, "write", columnsOf(plan, target));
        if (target instanceof LogicalPlan) {
            seen.put(target, Boolean.TRUE);
        }
        if (key != null && ROW_CHANGES.contains(kind)) {
            changedKeys.add(key);
        }
    }

    /** Return the columns of a target: those of its relation, or those of the rows. */
    private static List columnsOf(LogicalPlan plan, Object target) {
        if (target instanceof LogicalPlan && isRelation(kindOf(target))) {
            return outputOf((LogicalPlan) target, null);
        }
        List names = namesOf(plan);
        Object query = call(plan, "query");
        if (names == null && query instanceof LogicalPlan) {
            return outputOf((LogicalPlan) query, null);
        }
        return names;
    }

    private static List namesOf(LogicalPlan plan) {
        Object names = call(plan, "outputColumnNames");
        return names instanceof Iterable ? listOf((Iterable) names) : null;
    }

    private static Object unwrap(Object target) {
        while (true) {
            if (target instanceof Option) {
                target = ((Option) target).isDefined() ? ((Option) target).get() : null;
            } else if (target instanceof LogicalPlan && !isRelation(kindOf(target))
                    && ((LogicalPlan) target).children().size() == 1) {
                target = ((LogicalPlan) target).children().head();
            } else {
                return target;
            }
        }
    }

    private void addRead(LogicalPlan relation, boolean isWhole) {
        Object named = relation instanceof View ? ((View) relation).desc() : relation;
        describe(named, "read", outputOf(relation, isWhole ? null : referenced));
    }

    private static List outputOf(LogicalPlan plan, Set chosen) {
        List names = new ArrayList();
        Iterator output = plan.output().iterator();
        while (output.hasNext()) {
            Attribute attribute = (Attribute) output.next();
            if (chosen == null || chosen.contains(Long.valueOf(attribute.exprId().id()))) {
                names.add(attribute.name());
            }
        }
        return names;
    }

    /** Add what an object of Spark names. Return its key, or null if it names no table. */
    private String describe(Object named, String direction, List columns) {
        named = unwrap(named);
        if (named instanceof CatalogTable) {
            named = ((CatalogTable) named).identifier();
        }
        if (named instanceof TableIdentifier) {
            TableIdentifier name = (TableIdentifier) named;
            Object catalog = unwrap(name.catalog());
            Object database = unwrap(name.database());
            return add(catalog == null ? SESSION_CATALOG : catalog.toString(),
                database == null ? new String[0] : new String[] {database.toString()},
                name.table(), null, direction, columns);
        }
        if (named instanceof CatalogStorageFormat) {
            addLocation(unwrap(((CatalogStorageFormat) named).locationUri()), direction, columns);
            return null;
        }
        if (named == null) {
            return null;
        }
        return describeRelation(named, direction, columns);
    }

    private String describeRelation(Object relation, String direction, List columns) {
        String kind = kindOf(relation);
        if (kind.equals("HiveTableRelation")) {
            return describe(call(relation, "tableMeta"), direction, columns);
        }
        if (kind.equals("LogicalRelation")) {
            Object table = unwrap(call(relation, "catalogTable"));
            if (table != null) {
                return describe(table, direction, columns);
            }
            describeSource(call(relation, "relation"), direction, columns);
            return null;
        }
        Object catalog = unwrap(call(relation, "catalog"));
        Object identifier = unwrap(call(relation, "identifier"));
        if (catalog instanceof CatalogPlugin && identifier instanceof Identifier) {
            if (catalog.getClass().getName().equals("headrace.SystemCatalog")) {
                return null;
            }
            Identifier name = (Identifier) identifier;
            String catalogName = ((CatalogPlugin) catalog).name();
            return add(catalogName, name.namespace(), name.name(), null, direction, columns);
        }
        describeUnnamed(relation, kind, direction, columns);
        return null;
    }

    private void describeUnnamed(Object relation, String kind, String direction, List columns) {
        if (kind.equals("StreamingRelation")) {
            Object source = call(relation, "dataSource");
            Object table = unwrap(call(source, "catalogTable"));
            if (table != null) {
                describe(table, direction, columns);
            } else {
                describeOptions(call(source, "options"), direction, columns);
            }
            return;
        }
        Object paths = call(call(relation, "table"), "paths");
        if (paths instanceof Iterable) {
            addLocations((Iterable) paths, direction, columns);
            return;
        }
        Object options = call(relation, "options");
        describeOptions(options == null ? call(relation, "extraOptions") : options,
            direction, columns);
    }

    private void describeSource(Object source, String direction, List columns) {
        Object location = call(source, "location");
        Object paths = location == null ? null : call(location, "rootPaths");
        if (paths instanceof Iterable) {
            addLocations((Iterable) paths, direction, columns);
            return;
        }
        Object jdbc = call(source, "jdbcOptions");
        if (jdbc != null) {
            describeOptions(call(jdbc, "parameters"), direction, columns);
        }
    }

    private void addLocations(Iterable paths, String direction, List columns) {
        Iterator each = paths.iterator();
        for (int i = 0; i < MAX_PATHS && each.hasNext(); i++) {
            addLocation(each.next(), direction, columns);
        }
    }

    private void addLocation(Object location, String direction, List columns) {
        if (location != null) {
            Path path = location instanceof URI
                ? new Path((URI) location) : new Path(location.toString());
            add(null, new String[0], null, qualify(path), direction, columns);
        }
    }

    /** Return the location of a path. One without a scheme belongs to the default file system. */
    public String locationOf(String path) {
        return qualify(new Path(path));
    }

    private static String qualify(Path path) {
        URI root = FileSystem.getDefaultUri(SparkContext.getOrCreate().hadoopConfiguration());
        return path.makeQualified(root, new Path("/")).toString();
    }

    /** Add the table or the files that the options of a source or a sink name. */
    private void describeOptions(Object options, String direction, List columns) {
        String url = option(options, "url");
        String topic = option(options, "subscribe");
        topic = topic == null ? option(options, "subscribePattern") : topic;
        topic = topic == null ? option(options, "topic") : topic;
        if (url != null) {
            String name = option(options, "dbtable");
            boolean isName = name != null && name.matches("[A-Za-z0-9_.$\"`]+");
            add(null, new String[0], isName ? name : null, url, direction, columns);
        } else if (topic != null) {
            String servers = option(options, "kafka.bootstrap.servers");
            String place = servers == null ? null : "kafka://" + servers;
            add(null, new String[0], topic, place, direction, columns);
        } else {
            addLocation(option(options, "path"), direction, columns);
        }
    }

    private static String option(Object options, String key) {
        Object value = null;
        if (options instanceof Map) {
            value = ((Map) options).get(key);
        } else if (options instanceof scala.collection.Map) {
            value = unwrap(((scala.collection.Map) options).get(key));
        }
        return value == null ? null : value.toString();
    }

    private String add(String catalog, String[] namespace, String name, String location,
            String direction, List columns) {
        String key = (catalog + "\n" + Arrays.asList(namespace) + "\n" + name).toLowerCase()
            + "\n" + location;
        String place = direction + "\n" + key;
        Object[] entry = (Object[]) tables.get(place);
        if (entry == null) {
            entry = new Object[] {
                catalog, namespace, name, location, direction, new LinkedHashSet(), key};
            tables.put(place, entry);
        }
        if (columns != null) {
            ((Set) entry[5]).addAll(columns);
        }
        return key;
    }

    private String toJson(int maxTables, int maxColumns) {
        ArrayNode result = JsonNodeFactory.instance.arrayNode();
        java.util.Iterator each = tables.values().iterator();
        while (each.hasNext() && result.size() < maxTables) {
            Object[] entry = (Object[]) each.next();
            if (entry[4].equals("read") && changedKeys.contains(entry[6])) {
                continue;
            }
            ObjectNode node = result.addObject();
            node.put("catalog", (String) entry[0]);
            ArrayNode namespace = node.putArray("namespace");
            String[] parts = (String[]) entry[1];
            for (int i = 0; i < parts.length; i++) {
                namespace.add(parts[i]);
            }
            node.put("name", (String) entry[2]);
            node.put("location", (String) entry[3]);
            node.put("direction", (String) entry[4]);
            putColumns(node, (Set) entry[5], maxColumns);
        }
        return result.toString();
    }

    private static void putColumns(ObjectNode node, Set columns, int maxColumns) {
        ArrayNode names = node.putArray("columns");
        java.util.Iterator each = columns.iterator();
        while (each.hasNext() && names.size() < maxColumns) {
            String name = (String) each.next();
            if (!name.isEmpty() && name.length() <= MAX_NAME) {
                names.add(name);
            }
        }
        node.put("columns_omitted", columns.size() - names.size());
    }

    private static List listOf(Iterable values) {
        List list = new ArrayList();
        Iterator each = values.iterator();
        while (each.hasNext()) {
            list.add(each.next());
        }
        return list;
    }

    private static String kindOf(Object plan) {
        String name = plan.getClass().getName();
        return name.substring(Math.max(name.lastIndexOf('.'), name.lastIndexOf('$')) + 1);
    }

    /** Return what a method of an object returns; null if the object has no such method. */
    private static Object call(Object target, String name) {
        if (target == null) {
            return null;
        }
        try {
            Method method = target.getClass().getMethod(name, new Class[0]);
            method.setAccessible(true);
            return method.invoke(target, new Object[0]);
        } catch (ReflectiveOperationException error) {
            return null;
        }
    }
}
