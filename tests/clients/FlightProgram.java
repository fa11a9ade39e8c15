import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/** Does with Arrow's driver of JDBC what tools do. Each line of its output is one answer. */
public class FlightProgram {
    public static void main(String[] arguments) throws Exception {
        String url = arguments[0];
        try (Connection wrong = DriverManager.getConnection(url, arguments[1], "wrong")) {
            System.out.println("signed in");
        } catch (SQLException error) {
            System.out.println(error.getMessage().contains("unauthorized"));
        }
        try (Connection connection = DriverManager.getConnection(url, arguments[1], arguments[2]);
                Statement statement = connection.createStatement()) {
            System.out.println(statement.executeUpdate("CREATE DATABASE IF NOT EXISTS flight_jdbc"));
            statement.execute("USE flight_jdbc");
            statement.executeUpdate("DROP TABLE IF EXISTS t");
            statement.executeUpdate("CREATE TABLE t (n INT, d DECIMAL(38,18)) USING delta");
            System.out.println(statement.execute("INSERT INTO t VALUES (1, 1.5)")
                + " " + statement.getUpdateCount());
            System.out.println(rows(statement.executeQuery("SELECT * FROM t")));
            System.out.println(statement.execute("SHOW TABLES")
                + " " + rows(statement.getResultSet()));
            try (PreparedStatement prepared =
                    connection.prepareStatement("SELECT d FROM t WHERE n = ?")) {
                prepared.setString(1, "1");
                System.out.println(rows(prepared.executeQuery()));
            }
            DatabaseMetaData metadata = connection.getMetaData();
            System.out.println(count(metadata.getTables(null, "flight_jdbc", "%", null))
                + " " + count(metadata.getColumns(null, "flight_jdbc", "t", "%"))
                + " " + count(metadata.getImportedKeys(null, "flight_jdbc", "t")));
            int broken = 0;
            for (java.lang.reflect.Method method : DatabaseMetaData.class.getMethods()) {
                if (method.getParameterCount() == 0) {
                    try {
                        method.invoke(metadata);
                    } catch (java.lang.reflect.InvocationTargetException error) {
                        broken++;
                    }
                }
            }
            System.out.println(broken);
            try {
                statement.executeQuery("SELECT 1,\n nope");
            } catch (SQLException error) {
                System.out.println(error.getMessage().contains("(line 2, column 2)"));
            }
            System.out.println(count(statement.executeQuery("SELECT id FROM range(1000000)")));
            statement.executeUpdate("DROP DATABASE flight_jdbc CASCADE");
            // The driver would say that it has leaked memory.
            System.exit(0);
        }
    }

    private static String rows(ResultSet found) throws SQLException {
        StringBuilder text = new StringBuilder();
        while (found.next()) {
            for (int i = 1; i <= found.getMetaData().getColumnCount(); i++) {
                text.append(found.getString(i)).append(' ');
            }
        }
        found.close(); // the driver counts its buffers when the connection closes
        return text.toString().trim();
    }

    private static int count(ResultSet found) throws SQLException {
        int rows = 0;
        while (found.next()) {
            rows++;
        }
        found.close();
        return rows;
    }
}
