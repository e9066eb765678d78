import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A billing service: one line for each event, however often the event is delivered.
 *
 * <p>The claim of the event and the line are one transaction. docs/ledger.md has the statements and the rules.
 *
 * <pre>JDBC_URL=jdbc:postgresql://... KAFKA_BROKERS=kafka:9092 java -cp 'jars/*' Billing.java</pre>
 */
public final class Billing {
    static final String CONSUMER = "billing";
    static final String GROUP = "billing";
    static final String TOPIC = "order.events";

    static final String CLAIM = """
        INSERT INTO processed_events (consumer, event_id, status, source, completed_at)
        SELECT ?, ?, 'COMPLETED', ?, now() FROM (SELECT CASE current_setting('synchronous_commit')
            WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END OFFSET 0) AS durable
        ON CONFLICT (consumer, event_id) DO NOTHING""";
    static final String STATUS = "SELECT status FROM processed_events WHERE consumer = ? AND event_id = ?";

    static volatile boolean stopping;
    static Connection db;

    public static void main(String[] args) throws Exception {
        var consumer = new KafkaConsumer<String, String>(Map.of(
            "bootstrap.servers", System.getenv("KAFKA_BROKERS"),
            "group.id", GROUP,
            "auto.offset.reset", "earliest",
            "isolation.level", "read_committed",
            "enable.auto.commit", "false",
            "max.poll.records", "50"), new StringDeserializer(), new StringDeserializer());
        Thread loop = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            consumer.wakeup();
            try {
                loop.join(10_000);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(List.of(TOPIC));
        try (consumer) {
            while (!stopping) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    if (!handleUntilDone(record)) {
                        return; // without a commit: what is left is delivered again
                    }
                }
                try {
                    consumer.commitSync();
                } catch (CommitFailedException e) { // the group went on without this member
                    System.err.println(e.getMessage());
                }
            }
        } catch (WakeupException e) {
            // asked to stop
        }
    }

    /** Tries again until it succeeds. A record that can never succeed belongs into a dead-letter topic of yours. */
    static boolean handleUntilDone(ConsumerRecord<String, String> record) throws InterruptedException {
        for (long pause = 100; !stopping; pause = Math.min(2 * pause, 10_000)) {
            try {
                if (db == null || !db.isValid(5)) {
                    db = DriverManager.getConnection(System.getenv("JDBC_URL"));
                    db.setAutoCommit(false);
                }
                handle(record);
                return true;
            } catch (SQLException | RuntimeException e) {
                System.err.printf("not handled: %s/%d@%d: %s%n", record.topic(), record.partition(), record.offset(), e);
                Thread.sleep(pause);
            }
        }
        return false;
    }

    /** Handles the event if it was not handled before. An exception means that nothing was written. */
    static void handle(ConsumerRecord<String, String> record) throws SQLException {
        String id = new String(record.headers().lastHeader("id").value(), java.nio.charset.StandardCharsets.UTF_8);
        String source = record.topic() + "/" + record.partition() + "@" + record.offset();
        try {
            if (update(CLAIM, CONSUMER, id, source) == 1) {
                bill(id, record.value());
                db.commit();
                return;
            }
            String status = status(id);
            db.rollback();
            if (!"COMPLETED".equals(status)) {
                throw new IllegalStateException("event " + id
                    + " was begun before, and it is not known whether it had its effect");
            }
        } catch (SQLException | RuntimeException e) {
            try {
                db.rollback();
            } catch (SQLException lost) {
                e.addSuppressed(lost);
            }
            throw e;
        }
    }

    static void bill(String id, String value) throws SQLException {
        update("INSERT INTO billing_lines (event_id, order_id, cents) VALUES (?, ?::bigint, ?::bigint)", id,
            number(value, "order"), number(value, "cents"));
    }

    static String status(String id) throws SQLException {
        try (PreparedStatement s = db.prepareStatement(STATUS)) {
            s.setString(1, CONSUMER);
            s.setString(2, id);
            try (ResultSet r = s.executeQuery()) {
                return r.next() ? r.getString(1) : null;
            }
        }
    }

    static int update(String sql, String... values) throws SQLException {
        try (PreparedStatement s = db.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++) {
                s.setString(i + 1, values[i]);
            }
            return s.executeUpdate();
        }
    }

    /** Stands for the JSON library of your choice. */
    static String number(String json, String name) {
        Matcher m = Pattern.compile("\"" + name + "\"\\s*:\\s*(-?\\d+)").matcher(json);
        if (!m.find()) {
            throw new IllegalArgumentException("no number " + name);
        }
        return m.group(1);
    }
}
