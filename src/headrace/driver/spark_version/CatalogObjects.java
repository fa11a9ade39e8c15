package headrace;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** What the catalogs of a session hold, which would take several calls from Python for each name. */
public class CatalogObjects {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String SESSION_CATALOG = "spark_catalog";
    /** Tables whose descriptions are read at once. */
    private static final int BATCH = 500;

    /**
     * Return the names of the schemas of a catalog as a JSON array.
     *
     * @param schema regular expression for the names
     */
    public String listSchemas(SparkSession session, String catalog, String schema)
            throws Exception {
        SparkSession.setActiveSession(session);
        List rows = new ArrayList();
        Iterator names = schemas(session, catalog, schema).iterator();
        while (names.hasNext()) {
            rows.add(row(catalog, (String) names.next()));
        }
        return JSON.writeValueAsString(rows);
    }

    /**
     * Return tables and views as a JSON array of objects.
     *
     * @param schemaPattern regular expression for the names of schemas
     * @param tablePattern regular expression for the names of tables
     * @param withColumns whether each object has the schema of the table
     */
    public String listTables(
            SparkSession session, String catalog, String schemaPattern, String tablePattern,
            boolean withColumns) throws Exception {
        SparkSession.setActiveSession(session);
        Pattern table = Pattern.compile(tablePattern, Pattern.CASE_INSENSITIVE);
        List rows = new ArrayList();
        Iterator schemas = schemas(session, catalog, schemaPattern).iterator();
        while (schemas.hasNext()) {
            String schema = (String) schemas.next();
            if (catalog.equals(SESSION_CATALOG)) {
                addV1Tables(session, schema, table, withColumns, rows);
            } else {
                addTables(session, catalog, schema, table, withColumns, rows);
            }
        }
        if (catalog.equals(SESSION_CATALOG)) {
            addTemporaryViews(session, table, withColumns, rows);
        }
        return JSON.writeValueAsString(rows);
    }

    /** Return functions as a JSON array of objects. */
    public String listFunctions(
            SparkSession session, String schemaPattern, String functionPattern) throws Exception {
        SparkSession.setActiveSession(session);
        Pattern function = Pattern.compile(functionPattern, Pattern.CASE_INSENSITIVE);
        SessionCatalog catalog = session.sessionState().catalog();
        List rows = new ArrayList();
        Iterator schemas = schemas(session, SESSION_CATALOG, schemaPattern).iterator();
        java.util.Set seen = new java.util.HashSet();
        while (schemas.hasNext()) {
            String schema = (String) schemas.next();
            Iterator found =
                CollectionConverters.asJava(catalog.listFunctions(schema, "*")).iterator();
            while (found.hasNext()) {
                Tuple2 pair = (Tuple2) found.next();
                org.apache.spark.sql.catalyst.FunctionIdentifier identifier =
                    (org.apache.spark.sql.catalyst.FunctionIdentifier) pair._1();
                String name = identifier.funcName();
                boolean isOwn = identifier.database().isDefined();
                if (!function.matcher(name).matches()
                        || !seen.add((isOwn ? schema : "") + "." + name)) {
                    continue;
                }
                Map row = row(SESSION_CATALOG, isOwn ? schema : "");
                row.put("name", name);
                row.put("class", catalog.lookupFunctionInfo(identifier).getClassName());
                rows.add(row);
            }
        }
        return JSON.writeValueAsString(rows);
    }

    private static List schemas(SparkSession session, String catalog, String schema)
            throws Exception {
        Pattern pattern = Pattern.compile(schema, Pattern.CASE_INSENSITIVE);
        List all = new ArrayList();
        if (catalog.equals(SESSION_CATALOG)) {
            all.addAll(CollectionConverters.asJava(
                session.sessionState().catalog().listDatabases()));
        } else {
            CatalogPlugin plugin = session.sessionState().catalogManager().catalog(catalog);
            if (plugin instanceof SupportsNamespaces) {
                addNamespaces((SupportsNamespaces) plugin, new String[0], all, 0);
            }
        }
        List matching = new ArrayList();
        Iterator names = all.iterator();
        while (names.hasNext()) {
            String name = (String) names.next();
            if (pattern.matcher(name).matches()) {
                matching.add(name);
            }
        }
        return matching;
    }

    private static void addNamespaces(
            SupportsNamespaces catalog, String[] parent, List names, int depth) throws Exception {
        String[][] children =
            depth == 0 ? catalog.listNamespaces() : catalog.listNamespaces(parent);
        for (int i = 0; i < children.length; i++) {
            names.add(String.join(".", children[i]));
            if (depth < 4) {
                addNamespaces(catalog, children[i], names, depth + 1);
            }
        }
    }

    private static void addV1Tables(
            SparkSession session, String schema, Pattern table, boolean withColumns, List rows)
            throws Exception {
        SessionCatalog catalog = session.sessionState().catalog();
        if (schema.equals(catalog.globalTempDatabase())) {
            return;
        }
        List names = new ArrayList();
        Iterator all = CollectionConverters.asJava(
            catalog.externalCatalog().listTables(schema)).iterator();
        while (all.hasNext()) {
            String name = (String) all.next();
            if (table.matcher(name).matches()) {
                names.add(name);
            }
        }
        for (int first = 0; first < names.size(); first += BATCH) {
            List part = names.subList(first, Math.min(first + BATCH, names.size()));
            Seq wanted = CollectionConverters.asScala(new ArrayList(part)).toSeq();
            Iterator found = CollectionConverters.asJava(
                catalog.externalCatalog().getTablesByName(schema, wanted)).iterator();
            while (found.hasNext()) {
                rows.add(describe(session, (CatalogTable) found.next(), schema, withColumns));
            }
        }
    }

    private static Map describe(
            SparkSession session, CatalogTable table, String schema, boolean withColumns) {
        Map row = row(SESSION_CATALOG, schema);
        row.put("name", table.identifier().table());
        row.put("type", table.tableType().name().equals("VIEW") ? "VIEW" : "TABLE");
        row.put("comment", table.comment().isDefined() ? table.comment().get() : null);
        if (withColumns) {
            row.put("columns", columns(schemaOf(session, table, schema)));
        }
        return row;
    }

    /** Return the columns of a table. Those of Delta's tables are in their logs only. */
    private static StructType schemaOf(SparkSession session, CatalogTable table, String schema) {
        if (table.schema().fields().length > 0) {
            return table.schema();
        }
        try {
            return session.table(SESSION_CATALOG + "." + quote(schema) + "."
                + quote(table.identifier().table())).schema();
        } catch (Exception error) {
            // The files of the table may be gone: the others are listed nevertheless.
            return table.schema();
        }
    }

    private static void addTables(
            SparkSession session, String catalog, String schema, Pattern table,
            boolean withColumns, List rows) throws Exception {
        CatalogPlugin plugin = session.sessionState().catalogManager().catalog(catalog);
        if (!(plugin instanceof TableCatalog)) {
            return;
        }
        TableCatalog tables = (TableCatalog) plugin;
        Identifier[] found = tables.listTables(schema.split("\\."));
        for (int i = 0; i < found.length; i++) {
            if (!table.matcher(found[i].name()).matches()) {
                continue;
            }
            Map row = row(catalog, schema);
            row.put("name", found[i].name());
            row.put("type", "TABLE");
            row.put("comment", null);
            if (withColumns) {
                row.put("columns", columns(CatalogV2Util.v2ColumnsToStructType(
                    tables.loadTable(found[i]).columns())));
            }
            rows.add(row);
        }
    }

    private static void addTemporaryViews(
            SparkSession session, Pattern table, boolean withColumns, List rows)
            throws Exception {
        SessionCatalog catalog = session.sessionState().catalog();
        Iterator found =
            CollectionConverters.asJava(catalog.listLocalTempViews("*")).iterator();
        while (found.hasNext()) {
            String name = ((TableIdentifier) found.next()).table();
            if (!table.matcher(name).matches()) {
                continue;
            }
            Map row = row(SESSION_CATALOG, "");
            row.put("name", name);
            row.put("type", "VIEW");
            row.put("comment", null);
            if (withColumns) {
                row.put("columns", columns(session.table(quote(name)).schema()));
            }
            rows.add(row);
        }
    }

    private static String quote(String name) {
        return "`" + name.replace("`", "``") + "`";
    }

    private static String columns(StructType schema) {
        return CharVarcharUtils.replaceCharVarcharWithStringInSchema(schema).json();
    }

    private static Map row(String catalog, String schema) {
        Map row = new LinkedHashMap();
        row.put("catalog", catalog);
        row.put("schema", schema);
        return row;
    }
}
