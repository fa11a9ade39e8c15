import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/** One action with a driver of JDBC. What it saw is printed: a JSON array on each line. */
public class JdbcProgram {
    /** Arguments: URL, user, password, action, and its texts. Janino compiles it: no lambdas. */
    public static void main(String[] arguments) throws Exception {
        String action = arguments[3];
        try {
            Connection connection =
                    DriverManager.getConnection(arguments[0], arguments[1], arguments[2]);
            Statement statement = connection.createStatement();
            if (action.equals("tables")) {
                DatabaseMetaData metadata = connection.getMetaData();
                String[] kinds = new String[] {"TABLE", "VIEW"};
                print(metadata.getTables(null, arguments[4], arguments[5], kinds), 4);
            } else if (action.equals("columns")) {
                print(connection.getMetaData().getColumns(null, arguments[4], arguments[5], null), 7);
            } else if (action.equals("count")) {
                count(statement, arguments[4], Integer.parseInt(arguments[5]));
            } else if (action.equals("cancel")) {
                cancel(statement, arguments[4]);
            } else {
                for (int i = 4; i < arguments.length; i++) {
                    if (statement.execute(arguments[i])) {
                        ResultSet rows = statement.getResultSet();
                        print(rows, rows.getMetaData().getColumnCount());
                    }
                }
            }
            connection.close();
        } catch (SQLException error) {
            System.out.println(quote(error.getMessage()));
            System.out.println(quote(error.getSQLState()));
            System.exit(3);
        }
    }

    /** Print the type and the text of each value. */
    private static void print(ResultSet rows, int columns) throws SQLException {
        while (rows.next()) {
            StringBuilder line = new StringBuilder();
            for (int i = 1; i <= columns; i++) {
                Object value = rows.getObject(i);
                String type = value == null ? null : value.getClass().getName();
                String cell = "[" + quote(type) + "," + quote(rows.getString(i)) + "]";
                line.append(i == 1 ? "[" : ",").append(cell);
            }
            System.out.println(line.append("]"));
        }
    }

    /** Print how many rows there are, and the sum of their first column. */
    private static void count(Statement statement, String text, int page) throws SQLException {
        statement.setFetchSize(page);
        long count = 0;
        long sum = 0;
        long start = System.nanoTime();
        ResultSet rows = statement.executeQuery(text);
        while (rows.next()) {
            count++;
            sum += rows.getLong(1);
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        System.out.println("[" + count + "," + sum + "," + seconds + "]");
    }

    /** Cancel a query when a line arrives at standard input. */
    private static void cancel(final Statement statement, String text) throws SQLException {
        Thread canceller = new Thread() {
            public void run() {
                try {
                    System.in.read();
                    statement.cancel();
                } catch (Exception error) {
                    error.printStackTrace();
                }
            }
        };
        canceller.setDaemon(true);
        canceller.start();
        statement.execute(text);
        System.out.println("[\"not cancelled\"]");
    }

    private static String quote(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder quoted = new StringBuilder("\"");
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            boolean isPlain = c >= ' ' && c < 127 && c != '"' && c != '\\';
            quoted.append(isPlain ? String.valueOf(c) : String.format("\\u%04x", new Object[] {(int) c}));
        }
        return quoted.append("\"").toString();
    }
}
