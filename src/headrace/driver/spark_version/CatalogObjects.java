package headrace;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.NoSuchDatabaseException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalog;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.ViewCatalog;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What a catalog of a session holds, which would take several calls from Python for each name.
 *
 * <p>An object that cannot be read is listed with what is known: its name, and whether it is a
 * view. An object that is dropped during the listing is left out.
 *
 * <p>The patterns are regular expressions. A namespace with several parts is a name with dots, in
 * which a part that has a dot or a backquote itself is in backquotes.
 */
public class CatalogObjects {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String SESSION_CATALOG = "spark_catalog";
    private static final String POSITION = "headrace.position";
    /** Tables whose descriptions are read at once. */
    private static final int BATCH = 500;
    private static final int MAX_DEPTH = 16;

    /** Return the schemas of a catalog as a JSON array of objects. */
    public String listSchemas(SparkSession session, String catalog, String schema)
            throws Throwable {
        Listing listing = new Listing(session, catalog, schema);
        List namespaces = listing.namespaces();
        for (int i = 0; i < namespaces.size(); i++) {
            listing.addRow(join((String[]) namespaces.get(i)));
        }
        return listing.toJson();
    }

    /**
     * Return tables and views as a JSON array of objects. Temporary views have an empty schema.
     *
     * @param column pattern for the columns that each object has, or null: without columns
     * @param withPositions whether the metadata of each column has its position in the table, and
     *     tables without a matching column are left out
     */
    public String listTables(
            SparkSession session, String catalog, String schema, String table, String column,
            boolean withPositions) throws Throwable {
        Columns columns = column == null ? null : new Columns(compile(column), withPositions);
        return new Listing(session, catalog, schema).listTables(compile(table), columns);
    }

    /** Return functions as a JSON array of objects. Those of Spark have an empty schema. */
    public String listFunctions(
            SparkSession session, String catalog, String schema, String function)
            throws Throwable {
        return new Listing(session, catalog, schema).listFunctions(compile(function));
    }

    /** Throw an error that concerns the whole statement, and not one object. */
    private static void check(Throwable error) throws Throwable {
        boolean isOfObject = error instanceof Exception || error instanceof LinkageError;
        if (!isOfObject) {
            throw error;
        }
        for (Throwable each = error; each != null; each = each.getCause()) {
            boolean isCancelled = each instanceof SparkThrowable
                && "SPARK_JOB_CANCELLED".equals(((SparkThrowable) each).getCondition());
            if (isCancelled || each instanceof InterruptedException) {
                throw error;
            }
        }
    }

    private static boolean isDropped(Throwable error) {
        return error instanceof NoSuchTableException || error instanceof NoSuchDatabaseException;
    }

    /** Each catalog has its own class for this: the names are those of Hadoop, Hive and Iceberg. */
    private static boolean isNotPermitted(Throwable error) {
        for (Throwable each = error; each != null; each = each.getCause()) {
            String name = each.getClass().getSimpleName();
            if (name.contains("AccessControl") || name.startsWith("Forbidden")) {
                return true;
            }
        }
        return false;
    }

    private static Pattern compile(String pattern) {
        int flags = Pattern.CASE_INSENSITIVE | Pattern.UNICODE_CASE | Pattern.DOTALL;
        return Pattern.compile(pattern, flags);
    }

    private static String join(String[] namespace) {
        StringBuilder name = new StringBuilder();
        for (int i = 0; i < namespace.length; i++) {
            String part = namespace[i];
            boolean isPlain = part.indexOf('.') < 0 && part.indexOf('`') < 0;
            name.append(i == 0 ? "" : ".").append(isPlain ? part : quote(part));
        }
        return name.toString();
    }

    private static String quote(String name) {
        return "`" + name.replace("`", "``") + "`";
    }

    /** The rows of one statement. */
    private static class Listing {
        private final SparkSession session;
        private final String catalog;
        private final Pattern schema;
        private final List rows = new ArrayList();
        private final Set foundNamespaces = new HashSet();
        /** Why a schema could not be listed; null: all could. */
        private Throwable firstFailure = null;
        private int listed = 0;

        Listing(SparkSession session, String catalog, String schema) {
            SparkSession.setActiveSession(session);
            this.session = session;
            this.catalog = catalog.equalsIgnoreCase(SESSION_CATALOG) ? SESSION_CATALOG : catalog;
            this.schema = compile(schema);
        }

        String listTables(Pattern table, Columns columns) throws Throwable {
            List namespaces = namespaces();
            for (int i = 0; i < namespaces.size(); i++) {
                String[] namespace = (String[]) namespaces.get(i);
                try {
                    if (isV1()) {
                        addV1Tables(namespace[0], table, columns);
                    } else {
                        addTables(namespace, table, columns);
                    }
                    listed++;
                } catch (Throwable error) {
                    skip(error);
                }
            }
            if (isV1()) {
                addTemporaryViews(table, columns);
            }
            return toJson();
        }

        String listFunctions(Pattern function) throws Throwable {
            List namespaces = namespaces();
            Set seen = new HashSet();
            for (int i = 0; i < namespaces.size(); i++) {
                String[] namespace = (String[]) namespaces.get(i);
                try {
                    if (isV1()) {
                        addV1Functions(namespace[0], function, seen);
                    } else {
                        addFunctions(namespace, function);
                    }
                    listed++;
                } catch (Throwable error) {
                    skip(error);
                }
            }
            return toJson();
        }

        private boolean isV1() {
            return catalog.equals(SESSION_CATALOG);
        }

        /**
         * Let the listing continue with the next schema: this one was dropped or is not permitted.
         * Throws any other error: half a list would read as a whole one.
         */
        private void skip(Throwable error) throws Throwable {
            check(error);
            if (isDropped(error)) {
                return;
            }
            if (!isNotPermitted(error)) {
                throw error;
            }
            if (firstFailure == null) {
                firstFailure = error;
            }
        }

        /** Return the rows. Throws what has failed if no schema could be listed. */
        private String toJson() throws Throwable {
            if (firstFailure != null && listed == 0) {
                throw firstFailure;
            }
            return JSON.writeValueAsString(rows);
        }

        private CatalogPlugin plugin() {
            return session.sessionState().catalogManager().catalog(catalog);
        }

        private Map addRow(String namespace) {
            Map row = new LinkedHashMap();
            row.put("catalog", catalog);
            row.put("schema", namespace);
            rows.add(row);
            return row;
        }

        // Namespaces

        /** Return the namespaces that match the pattern, each as an array of its parts. */
        private List namespaces() throws Throwable {
            List found = new ArrayList();
            if (isV1()) {
                Iterator names = CollectionConverters.asJava(
                    session.sessionState().catalog().listDatabases()).iterator();
                while (names.hasNext()) {
                    addMatching(new String[] {(String) names.next()}, found);
                }
                return found;
            }
            CatalogPlugin plugin = plugin();
            if (plugin instanceof SupportsNamespaces) {
                SupportsNamespaces namespaces = (SupportsNamespaces) plugin;
                addNamespaces(namespaces, namespaces.listNamespaces(), found);
            } else {
                addMatching(new String[0], found);
            }
            return found;
        }

        private void addMatching(String[] namespace, List found) {
            if (schema.matcher(join(namespace)).matches()) {
                found.add(namespace);
            }
        }

        private void addNamespaces(SupportsNamespaces catalog, String[][] namespaces, List found)
                throws Throwable {
            for (int i = 0; i < namespaces.length; i++) {
                if (!foundNamespaces.add(join(namespaces[i]))) {
                    // Iceberg's catalog in memory lists some for two parents.
                    continue;
                }
                addMatching(namespaces[i], found);
                if (namespaces[i].length >= MAX_DEPTH || !mayMatchWithin(namespaces[i])) {
                    continue;
                }
                String[][] children = new String[0][];
                try {
                    children = catalog.listNamespaces(namespaces[i]);
                } catch (Throwable error) {
                    skip(error);
                }
                addNamespaces(catalog, children, found);
            }
        }

        /** Return whether the name of a namespace within this one may match the pattern. */
        private boolean mayMatchWithin(String[] namespace) {
            Matcher matcher = schema.matcher(join(namespace) + ".");
            // At the end of the text, a longer text could match.
            return matcher.matches() || matcher.hitEnd();
        }

        // Tables of Spark's own catalog

        private void addV1Tables(String schema, Pattern table, Columns columns) throws Throwable {
            ExternalCatalog external = session.sessionState().catalog().externalCatalog();
            List names = new ArrayList();
            Iterator all = CollectionConverters.asJava(external.listTables(schema)).iterator();
            while (all.hasNext()) {
                String name = (String) all.next();
                if (table.matcher(name).matches()) {
                    names.add(name);
                }
            }
            for (int first = 0; first < names.size(); first += BATCH) {
                int end = Math.min(first + BATCH, names.size());
                addDescribed(external, schema, names.subList(first, end), columns);
            }
        }

        /** Add tables, read in one call; in two halves if one of them cannot be read. */
        private void addDescribed(
                ExternalCatalog external, String schema, List names, Columns columns)
                throws Throwable {
            List tables = null;
            try {
                tables = CollectionConverters.asJava(external.getTablesByName(
                    schema, CollectionConverters.asScala(new ArrayList(names)).toSeq()));
            } catch (Throwable error) {
                check(error);
                if (!external.databaseExists(schema)) {
                    return;
                }
                if (names.size() == 1) {
                    String name = (String) names.get(0);
                    if (!isDropped(error)) {
                        boolean isView = !external.listViews(schema, name).isEmpty();
                        String type = isView ? "VIEW" : "TABLE";
                        addTable(schema, name, type, null, columns, null);
                    }
                    return;
                }
            }
            if (tables == null) {
                int half = names.size() / 2;
                addDescribed(external, schema, names.subList(0, half), columns);
                addDescribed(external, schema, names.subList(half, names.size()), columns);
                return;
            }
            for (int i = 0; i < tables.size(); i++) {
                CatalogTable table = (CatalogTable) tables.get(i);
                String type = table.tableType().name().equals("VIEW") ? "VIEW" : "TABLE";
                Object comment = table.comment().isDefined() ? table.comment().get() : null;
                StructType known = columns == null ? null : schemaOf(table, schema);
                addTable(schema, table.identifier().table(), type, comment, columns, known);
            }
        }

        /** Return the columns of a table; null: unknown. Those of Delta are in its logs. */
        private StructType schemaOf(CatalogTable table, String schema) throws Throwable {
            if (table.schema().fields().length > 0) {
                return table.schema();
            }
            String name = quote(schema) + "." + quote(table.identifier().table());
            return analyse(SESSION_CATALOG + "." + name);
        }

        /** Return the columns of a table or a view; null: Spark cannot read it. */
        private StructType analyse(String name) throws Throwable {
            try {
                return session.table(name).schema();
            } catch (Throwable error) {
                // Its files, its data source or the tables of the view may be gone.
                check(error);
                return null;
            }
        }

        private void addTable(
                String schema, String name, String type, Object comment, Columns columns,
                StructType known) {
            String described = columns == null || known == null ? null : columns.describe(known);
            if (columns != null && known != null && described == null) {
                return;
            }
            Map row = addRow(schema);
            row.put("name", name);
            row.put("type", type);
            row.put("comment", comment);
            row.put("columns", described);
        }

        private void addTemporaryViews(Pattern table, Columns columns) throws Throwable {
            SessionCatalog catalog = session.sessionState().catalog();
            Iterator found =
                CollectionConverters.asJava(catalog.listLocalTempViews("*")).iterator();
            while (found.hasNext()) {
                String name = ((TableIdentifier) found.next()).table();
                if (table.matcher(name).matches()) {
                    StructType known = columns == null ? null : analyse(quote(name));
                    addTable("", name, "VIEW", null, columns, known);
                }
            }
        }

        // Tables of other catalogs

        private void addTables(String[] namespace, Pattern table, Columns columns)
                throws Throwable {
            CatalogPlugin plugin = plugin();
            Set views = new HashSet();
            if (plugin instanceof ViewCatalog) {
                Identifier[] found = new Identifier[0];
                try {
                    found = ((ViewCatalog) plugin).listViews(namespace);
                } catch (UnsupportedOperationException error) {
                    // Iceberg's catalogs implement the interface, also those that have no views.
                }
                for (int i = 0; i < found.length; i++) {
                    views.add(found[i].name());
                    addV2Table(plugin, found[i], true, table, columns);
                }
            }
            if (!(plugin instanceof TableCatalog)) {
                return;
            }
            Identifier[] found = ((TableCatalog) plugin).listTables(namespace);
            for (int i = 0; i < found.length; i++) {
                if (!views.contains(found[i].name())) {
                    addV2Table(plugin, found[i], false, table, columns);
                }
            }
        }

        private void addV2Table(
                CatalogPlugin plugin, Identifier identifier, boolean isView, Pattern pattern,
                Columns columns) throws Throwable {
            if (!pattern.matcher(identifier.name()).matches()) {
                return;
            }
            StructType known = null;
            if (columns != null) {
                try {
                    known = isView
                        ? ((ViewCatalog) plugin).loadView(identifier).schema()
                        : CatalogV2Util.v2ColumnsToStructType(
                            ((TableCatalog) plugin).loadTable(identifier).columns());
                } catch (Throwable error) {
                    check(error);
                    if (isDropped(error)) {
                        return;
                    }
                }
            }
            String schema = join(identifier.namespace());
            addTable(schema, identifier.name(), isView ? "VIEW" : "TABLE", null, columns, known);
        }

        // Functions

        private void addV1Functions(String schema, Pattern pattern, Set seen) throws Throwable {
            SessionCatalog functions = session.sessionState().catalog();
            Iterator found =
                CollectionConverters.asJava(functions.listFunctions(schema, "*")).iterator();
            while (found.hasNext()) {
                FunctionIdentifier identifier = (FunctionIdentifier) ((Tuple2) found.next())._1();
                String name = identifier.funcName();
                String owner = identifier.database().isDefined() ? schema : "";
                if (!pattern.matcher(name).matches() || !seen.add(owner + "." + name)) {
                    continue;
                }
                String javaClass = null;
                try {
                    javaClass = functions.lookupFunctionInfo(identifier).getClassName();
                } catch (Throwable error) {
                    check(error);
                }
                addFunction(owner, name, javaClass);
            }
        }

        private void addFunctions(String[] namespace, Pattern pattern) throws Throwable {
            CatalogPlugin plugin = plugin();
            if (!(plugin instanceof FunctionCatalog)) {
                return;
            }
            Identifier[] found = ((FunctionCatalog) plugin).listFunctions(namespace);
            for (int i = 0; i < found.length; i++) {
                if (pattern.matcher(found[i].name()).matches()) {
                    addFunction(join(found[i].namespace()), found[i].name(), null);
                }
            }
        }

        private void addFunction(String schema, String name, String javaClass) {
            Map row = addRow(schema);
            row.put("name", name);
            row.put("class", javaClass);
        }
    }

    /** The columns that a statement lists. */
    private static class Columns {
        private final Pattern pattern;
        private final boolean withPositions;

        Columns(Pattern pattern, boolean withPositions) {
            this.pattern = pattern;
            this.withPositions = withPositions;
        }

        /** Return the matching columns as JSON; null if there are none, unless all are listed. */
        String describe(StructType schema) {
            StructType readable = CharVarcharUtils.replaceCharVarcharWithStringInSchema(schema);
            if (!withPositions) {
                return readable.json();
            }
            StructField[] fields = readable.fields();
            List matching = new ArrayList();
            for (int i = 0; i < fields.length; i++) {
                StructField field = fields[i];
                if (pattern.matcher(field.name()).matches()) {
                    MetadataBuilder metadata = new MetadataBuilder().withMetadata(field.metadata());
                    metadata.putLong(POSITION, i + 1L);
                    matching.add(new StructField(
                        field.name(), field.dataType(), field.nullable(), metadata.build()));
                }
            }
            if (matching.isEmpty()) {
                return null;
            }
            StructField[] listed = new StructField[matching.size()];
            matching.toArray(listed);
            return new StructType(listed).json();
        }
    }
}
