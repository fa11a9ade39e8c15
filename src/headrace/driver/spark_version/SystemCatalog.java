package headrace;

import java.lang.reflect.Field;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog of system tables, whose rows a session has for one statement.
 *
 * <p>Janino compiles this class: it has no generics and no lambdas.
 */
public class SystemCatalog implements TableCatalog {
    private static final String READ_ONLY = "System tables cannot be changed.";

    private String name;
    private final Map tables = new HashMap();

    /**
     * Give a session a catalog.
     *
     * @param name the name, as the statement writes it
     * @param frames rows by name of the table
     * @return whether it was added: the session may have a catalog of the user with this name
     */
    public boolean install(SparkSession session, String name, Map frames) throws Exception {
        SystemCatalog catalog = new SystemCatalog();
        catalog.name = name;
        java.util.Iterator each = frames.entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry entry = (Map.Entry) each.next();
            Dataset frame = (Dataset) entry.getValue();
            InternalRow[] rows = frame.queryExecution().executedPlan().executeCollect();
            String table = (String) entry.getKey();
            catalog.tables.put(table, new SystemRows(table, frame.schema(), rows));
        }
        CatalogManager manager = session.sessionState().catalogManager();
        synchronized (manager) {
            if (manager.isCatalogRegistered(name)) {
                return false;
            }
            catalogsOf(manager).put(name, catalog);
        }
        return true;
    }

    /** Remove a catalog of this class from a session. */
    public void remove(SparkSession session, String name) throws Exception {
        CatalogManager manager = session.sessionState().catalogManager();
        synchronized (manager) {
            catalogsOf(manager).remove(name);
        }
    }

    private static scala.collection.mutable.HashMap catalogsOf(CatalogManager manager)
            throws Exception {
        Field field = CatalogManager.class.getDeclaredField("catalogs");
        field.setAccessible(true);
        return (scala.collection.mutable.HashMap) field.get(manager);
    }

    public void initialize(String name, CaseInsensitiveStringMap options) {
        this.name = name;
    }

    public String name() {
        return name;
    }

    public Identifier[] listTables(String[] namespace) {
        return new Identifier[0];
    }

    public Table loadTable(Identifier identifier) throws NoSuchTableException {
        Object table = tables.get(identifier.name().toLowerCase());
        if (table == null || identifier.namespace().length > 0) {
            throw new NoSuchTableException(identifier);
        }
        return (Table) table;
    }

    public Table alterTable(Identifier identifier, TableChange[] changes) {
        throw new UnsupportedOperationException(READ_ONLY);
    }

    public boolean dropTable(Identifier identifier) {
        throw new UnsupportedOperationException(READ_ONLY);
    }

    public void renameTable(Identifier from, Identifier to) {
        throw new UnsupportedOperationException(READ_ONLY);
    }

    /** The rows of one system table. */
    public static class SystemRows implements SupportsRead, ScanBuilder, LocalScan {
        private final String name;
        private final StructType schema;
        private final InternalRow[] rows;

        public SystemRows(String name, StructType schema, InternalRow[] rows) {
            this.name = name;
            this.schema = schema;
            this.rows = rows;
        }

        public String name() {
            return "headrace." + name;
        }

        public StructType schema() {
            return schema;
        }

        public Set capabilities() {
            return Collections.singleton(TableCapability.BATCH_READ);
        }

        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return this;
        }

        public Scan build() {
            return this;
        }

        public StructType readSchema() {
            return schema;
        }

        public String description() {
            return name();
        }

        public InternalRow[] rows() {
            return rows;
        }
    }
}
