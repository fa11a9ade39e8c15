package headrace;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.lang.reflect.Field;
import java.net.URI;
import java.net.URISyntaxException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.catalog.TempVariableManager;
import org.apache.spark.sql.catalyst.catalog.TemporaryViewRelation;
import org.apache.spark.sql.catalyst.catalog.VariableDefinition;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.jdbc.JDBCRelation;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.util.Utils;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The state of a session, which would take several calls from Python for each of its entries. */
public class SessionState {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String MEMORY_SINK = "MemoryPlan";

    /**
     * Return the state of a session as a JSON object.
     *
     * <p>Its keys are `conf`, `catalog`, `namespace`, `variables`, `functions`, `views`,
     * `global_views`, and `jars`, `files` and `archives` with the original URI of each. A Java
     * object of an entry is serialized, in base64.
     *
     * @param withGlobalViews False: the list of global views is empty.
     */
    public String capture(SparkSession session, boolean withGlobalViews) throws Exception {
        SessionCatalog catalog = session.sessionState().catalog();
        Map state = new LinkedHashMap();
        state.put("conf", CollectionConverters.asJava(session.conf().getAll()));
        putNamespace(session.sessionState().catalogManager(), state);
        state.put("variables", describeVariables(session));
        state.put("functions", describeFunctions(catalog));
        state.put("views", describeViews(catalog));
        state.put("global_views",
            withGlobalViews ? describeGlobalViews(catalog) : new ArrayList());
        putResources(session.sparkContext(), state);
        return JSON.writeValueAsString(state);
    }

    /** Return the original URIs of the added `jars`, `files` and `archives` as a JSON object. */
    public String captureResources(SparkSession session) throws Exception {
        Map state = new LinkedHashMap();
        putResources(session.sparkContext(), state);
        return JSON.writeValueAsString(state);
    }

    /** Return the current `catalog` and `namespace` as a JSON object. */
    public String captureNamespace(SparkSession session) throws Exception {
        Map state = new LinkedHashMap();
        putNamespace(session.sessionState().catalogManager(), state);
        return JSON.writeValueAsString(state);
    }

    /** Declare the variables of a session in another one. */
    public void copyVariables(SparkSession source, SparkSession target) throws Exception {
        TempVariableManager manager =
            target.sessionState().catalogManager().tempVariableManager();
        Iterator variables = listVariables(source);
        while (variables.hasNext()) {
            VariableDefinition variable = (VariableDefinition) variables.next();
            List name = new ArrayList();
            name.add(variable.identifier().name());
            manager.create(CollectionConverters.asScala(name).toSeq(), variable, true);
        }
    }

    private static void putNamespace(CatalogManager manager, Map state) {
        state.put("catalog", manager.currentCatalog().name());
        state.put("namespace", manager.currentNamespace());
    }

    private static void putResources(SparkContext context, Map state) throws Exception {
        state.put("jars", findOriginals(context.listJars()));
        state.put("files", findOriginals(context.listFiles()));
        state.put("archives", findOriginals(context.listArchives()));
    }

    private static List findOriginals(Seq uris) throws Exception {
        List originals = new ArrayList();
        for (int i = 0; i < uris.size(); i++) {
            originals.add(findOriginal((String) uris.apply(i)));
        }
        return originals;
    }

    /**
     * Return the URI of the file behind a `spark://` URI; any other URI is returned unchanged.
     *
     * <p>Under `spark://` URIs, the file server of the driver serves local files to executors.
     */
    private static String findOriginal(String text) throws Exception {
        if (!text.startsWith("spark:")) {
            return text;
        }
        URI uri;
        try {
            uri = new URI(text);
        } catch (URISyntaxException error) {
            return text;
        }
        String[] parts = uri.getPath().split("/", 3); // Empty, the kind, and the name.
        Object server = SparkEnv.get().rpcEnv().fileServer();
        Map files = (Map) readField(server, server.getClass(), parts[1]);
        File file = (File) files.get(parts[2]);
        return file == null ? text : file.toURI().toString();
    }

    private static Iterator listVariables(SparkSession session) throws Exception {
        TempVariableManager manager =
            session.sessionState().catalogManager().tempVariableManager();
        Object variables = readField(manager, TempVariableManager.class, "variables");
        return ((scala.collection.mutable.HashMap) variables).valuesIterator();
    }

    private static List describeVariables(SparkSession session) throws Exception {
        List described = new ArrayList();
        Iterator variables = listVariables(session);
        while (variables.hasNext()) {
            VariableDefinition variable = (VariableDefinition) variables.next();
            Map entry = new LinkedHashMap();
            entry.put("name", variable.identifier().name());
            entry.put("value", serialize(variable.currentValue()));
            entry.put("default", variable.defaultValueSQL());
            described.add(entry);
        }
        return described;
    }

    private static List describeFunctions(SessionCatalog catalog) {
        List described = new ArrayList();
        Iterator names = catalog.listTemporaryFunctions().iterator();
        while (names.hasNext()) {
            String name = ((FunctionIdentifier) names.next()).funcName();
            Option found = catalog.lookupBuiltinOrTempFunction(name);
            if (found.isEmpty()) {
                found = catalog.lookupBuiltinOrTempTableFunction(name);
            }
            ExpressionInfo info = (ExpressionInfo) found.get();
            Map entry = new LinkedHashMap();
            entry.put("name", name);
            entry.put("source", info.getSource());
            entry.put("usage", info.getUsage());
            entry.put("class", info.getClassName());
            described.add(entry);
        }
        return described;
    }

    private static List describeViews(SessionCatalog catalog) {
        List described = new ArrayList();
        Iterator names = catalog.getTempViewNames().iterator();
        while (names.hasNext()) {
            String name = (String) names.next();
            describeView(name, catalog.getRawTempView(name), described);
        }
        return described;
    }

    private static List describeGlobalViews(SessionCatalog catalog) throws Exception {
        List described = new ArrayList();
        // Creating the lazy manager asks the metastore for a database: not without global views.
        if (readField(catalog, SessionCatalog.class, "globalTempViewManager") == null) {
            return described;
        }
        Iterator names = catalog.listTables(catalog.globalTempDatabase(), "*", false).iterator();
        while (names.hasNext()) {
            String name = ((TableIdentifier) names.next()).table();
            describeView(name, catalog.getRawGlobalTempView(name), described);
        }
        return described;
    }

    /** Add an entry for a view, unless it was dropped or shows the rows of a memory sink. */
    private static void describeView(String name, Option found, List described) {
        if (found.isEmpty()) {
            return;
        }
        TemporaryViewRelation view = (TemporaryViewRelation) found.get();
        Map entry = new LinkedHashMap();
        entry.put("name", name);
        if (view.plan().isEmpty()) {
            CatalogTable metadata = view.tableMeta();
            entry.put("metadata", serialize(metadata));
            entry.put("text", metadata.viewText().isDefined() ? metadata.viewText().get() : null);
            entry.put("columns", metadata.schema().fieldNames());
            entry.put("properties", CollectionConverters.asJava(metadata.properties()));
        } else {
            Seq leaves = ((LogicalPlan) view.plan().get()).collectLeaves();
            LogicalPlan leaf = leaves.size() == 1 ? (LogicalPlan) leaves.apply(0) : null;
            if (leaf != null && leaf.getClass().getSimpleName().equals(MEMORY_SINK)) {
                return; // Its query creates the view again.
            }
            if (leaf instanceof LogicalRelation) {
                describeSource(((LogicalRelation) leaf).relation(), entry);
            }
        }
        described.add(entry);
    }

    /** Add the source of a view that was created with `USING` files or JDBC. */
    private static void describeSource(Object relation, Map entry) {
        if (relation instanceof HadoopFsRelation) {
            HadoopFsRelation files = (HadoopFsRelation) relation;
            if (files.fileFormat() instanceof DataSourceRegister) {
                entry.put("source", ((DataSourceRegister) files.fileFormat()).shortName());
                entry.put("columns", files.schema().toDDL());
                entry.put("options", CollectionConverters.asJava(files.options()));
            }
        } else if (relation instanceof JDBCRelation) {
            entry.put("source", "jdbc");
            entry.put("columns", "");
            entry.put("options", CollectionConverters.asJava(
                ((JDBCRelation) relation).jdbcOptions().parameters().originalMap()));
        }
    }

    private static String serialize(Object value) {
        return Base64.getEncoder().encodeToString(Utils.serialize(value));
    }

    /** Return the value of a private field; null for a lazy value that was not computed yet. */
    private static Object readField(Object instance, Class owner, String name) throws Exception {
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(instance);
    }
}
