package headrace;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URI;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.NoSuchDatabaseException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.execution.command.CommandUtils$;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Tables of the session catalog, which would take several calls from Python each. */
public class CatalogTables {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String SESSION_CATALOG = "spark_catalog";

    /**
     * Return what the catalog says of a table or a view as a JSON object; null if there is none.
     *
     * <p>This takes one call of a metastore. SessionCatalog.getTableMetadata takes three.
     */
    public String describe(SparkSession session, String database, String name) throws Exception {
        SparkSession.setActiveSession(session);
        CatalogTable table = find(session, database, name);
        return table == null ? null : JSON.writeValueAsString(describe(session, table));
    }

    /**
     * Return what the session catalog says of the table or view that a name means in a session.
     *
     * @param parts JSON array with the parts of the name
     * @return the object of `describe`, with `database` and `name`; null if there is no such table
     */
    public String resolve(SparkSession session, String parts) throws Exception {
        SparkSession.setActiveSession(session);
        List names = (List) JSON.readValue(parts, List.class);
        CatalogManager manager = session.sessionState().catalogManager();
        String first = (String) names.get(0);
        String catalog;
        if (first.equals(SESSION_CATALOG)
                || session.sessionState().conf().contains("spark.sql.catalog." + first)) {
            catalog = first;
            names = names.subList(1, names.size());
        } else {
            catalog = manager.currentCatalog().name();
        }
        if (!catalog.equals(SESSION_CATALOG) || names.isEmpty() || names.size() > 2) {
            return null;
        }
        String database = names.size() == 2
            ? (String) names.get(0) : manager.v1SessionCatalog().getCurrentDatabase();
        String name = (String) names.get(names.size() - 1);
        CatalogTable table = find(session, database, name);
        if (table == null) {
            return null;
        }
        Map described = describe(session, table);
        described.put("database", database);
        described.put("name", name);
        return JSON.writeValueAsString(described);
    }

    /** Let the application read the changed files of a table, and update its statistics. */
    public void refresh(SparkSession session, String database, String name, String location)
            throws Exception {
        SparkSession.setActiveSession(session);
        SessionCatalog catalog = session.sessionState().catalog();
        catalog.refreshTable(identify(database, name));
        Path path = new Path(location);
        session.sharedState().cacheManager().recacheByPath(
            session, path, path.getFileSystem(session.sessionState().newHadoopConf()));
        CatalogTable table = find(session, database, name);
        // A table that was dropped since has no statistics. Its rows were published all the same.
        if (table != null) {
            CommandUtils$.MODULE$.updateTableStats(session, table);
        }
    }

    /** Return Spark's identifier of a table. */
    public TableIdentifier identify(String database, String name) {
        return new TableIdentifier(name, Option.apply(database), Option.apply(SESSION_CATALOG));
    }

    /** Return a table or a view of the catalog, past all caches; null if there is none. */
    private CatalogTable find(SparkSession session, String database, String name)
            throws Exception {
        SessionCatalog catalog = session.sessionState().catalog();
        TableIdentifier identifier = catalog.qualifyIdentifier(identify(database, name));
        try {
            return catalog.externalCatalog().getTable(
                (String) identifier.database().get(), identifier.table());
        } catch (Exception error) {
            if (error instanceof NoSuchTableException || error instanceof NoSuchDatabaseException
                    || error instanceof NoSuchNamespaceException) {
                return null;
            }
            throw error;
        }
    }

    private static Map describe(SparkSession session, CatalogTable table) {
        SQLConf conf = session.sessionState().conf();
        Option location = table.storage().locationUri();
        Map described = new LinkedHashMap();
        described.put("is_view", Boolean.valueOf(table.tableType().name().equals("VIEW")));
        described.put("provider", table.provider().isDefined() ? table.provider().get() : null);
        described.put("location", location.isDefined()
            ? new Path((URI) location.get()).toString() : null);
        described.put("partition_columns",
            CollectionConverters.asJava(table.partitionColumnNames()));
        described.put("tracks_partitions", Boolean.valueOf(
            !table.partitionColumnNames().isEmpty()
            && conf.manageFilesourcePartitions() && table.tracksPartitionsInCatalog()));
        described.put("properties", CollectionConverters.asJava(table.properties()));
        described.put("facts", table.createTime()
            + "\n" + CharVarcharUtils.replaceCharVarcharWithStringInSchema(table.schema()).json()
            + "\n" + (location.isDefined() ? location.get().toString() : "")
            + "\n" + table.provider()
            + "\n" + table.partitionColumnNames().mkString("/")
            + "\n" + table.bucketSpec());
        return described;
    }
}
