// The load of a JDBC driver: java Load.java PREFIX OPTIONS HOST PORT USER PASSWORD
// PREFIX is that of its URLs, and OPTIONS are what they end with.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

class Load {
    static final int LARGE = 20_000_000;

    public static void main(String[] args) throws Exception {
        String url = String.format("jdbc:%s://%s:%s/shop?%s", args[0], args[2], args[3], args[1]);
        String table = "`" + args[4] + "`";
        try (Connection conn = DriverManager.getConnection(url, args[4], args[5]);
                Statement statement = conn.createStatement()) {
            check(statement.executeQuery("SELECT 'text', 1").next());
            statement.execute(
                    "CREATE TABLE " + table + " (id INT PRIMARY KEY, v LONGTEXT, f DOUBLE)");
            String insert = "INSERT INTO " + table + " (id, v, f) VALUES (?, ?, ?)";
            conn.setAutoCommit(false);
            try (PreparedStatement prepared = conn.prepareStatement(insert)) {
                prepared.setInt(1, 1);
                prepared.setString(2, "ä€😀");
                prepared.setDouble(3, 0.5);
                prepared.executeUpdate();
                prepared.setInt(1, 2);
                prepared.setNull(2, java.sql.Types.VARCHAR);
                prepared.setNull(3, java.sql.Types.DOUBLE);
                prepared.executeUpdate();
                conn.commit();
                prepared.setInt(1, 1);
                mustFail(1062, prepared::executeUpdate);
            }
            readWithCursor(conn, table);
            check(statement.executeUpdate("DELETE FROM " + table) == 2);
            conn.rollback();
            mustFail(1054, () -> statement.execute("SELECT nosuch FROM " + table));
            try (ResultSet rows = statement.executeQuery("SELECT REPEAT('x', " + LARGE + ")")) {
                check(rows.next() && rows.getString(1).length() == LARGE);
            }
            try (PreparedStatement prepared =
                    conn.prepareStatement("INSERT INTO " + table + " (id, v) VALUES (3, ?)")) {
                prepared.setString(1, "y".repeat(LARGE));
                check(prepared.executeUpdate() == 1);
            }
            conn.commit();
            check(conn.isValid(60));
        }
    }

    /** Reads rows one at a time, which the server keeps until they are fetched. */
    static void readWithCursor(Connection conn, String table) throws SQLException {
        String select = "SELECT v FROM " + table + " WHERE id > ?";
        try (PreparedStatement prepared = conn.prepareStatement(select)) {
            prepared.setFetchSize(1);
            for (int i = 0; i < 2; i++) {
                prepared.setInt(1, 0);
                int count = 0;
                try (ResultSet rows = prepared.executeQuery()) {
                    while (rows.next()) {
                        count++;
                    }
                }
                check(count == 2);
            }
        }
    }

    interface Action {
        void run() throws SQLException;
    }

    static void mustFail(int errno, Action action) {
        try {
            action.run();
        } catch (SQLException error) {
            check(error.getErrorCode() == errno);
            return;
        }
        throw new AssertionError("no error " + errno);
    }

    static void check(boolean condition) {
        if (!condition) {
            throw new AssertionError();
        }
    }
}
