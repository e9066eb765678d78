import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.debezium.connector.postgresql.PostgresConnector;
import io.debezium.connector.postgresql.PostgresConnectorTask;
import java.io.File;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.internals.Topic;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.connector.ConnectorContext;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;
import org.apache.kafka.connect.util.ConnectUtils;

/**
 * Runs real Debezium connectors and prints what a Kafka Connect worker would have handed to the producer, one JSON object
 * per source record on standard output. It drives the connector's task, its transformations and converters in the order
 * of Connect's WorkerSourceTask, with one difference: where that would fail the task, the failure is printed and the next
 * record is taken, so that one run shows the fate of every row.
 *
 * The argument is a file with {"groups": [{"config": {...}, "cases": [{"name", "table", "config": {...}}]}]}: a group is one
 * connector, a case one of its tables with the transformations and converters of its own. A connector ends when it meets a
 * logical message with the prefix "end of capture".
 */
public final class Capture {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static PrintStream out;

    public static void main(String[] args) throws Exception {
        out = System.out;
        System.setOut(System.err); // libraries that print are not part of the answer
        JsonNode manifest = JSON.readTree(new File(args[0]));
        List<Thread> threads = new ArrayList<>();
        for (JsonNode group : manifest.get("groups")) {
            Thread thread = new Thread(() -> run(group));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.exit(0);
    }

    private static void run(JsonNode group) {
        try {
            Map<String, Case> cases = new HashMap<>();
            for (JsonNode node : group.get("cases")) {
                Case c = new Case(node);
                cases.put(node.get("table").asText(), c);
            }
            capture(strings(group.get("config")), cases);
        }
        catch (Throwable t) {
            t.printStackTrace();
            ObjectNode line = JSON.createObjectNode();
            line.put("failed", described(t));
            print(line);
        }
    }

    private static void capture(Map<String, String> config, Map<String, Case> cases) throws InterruptedException {
        PostgresConnector connector = new PostgresConnector();
        connector.initialize(new NoConnectorContext());
        connector.start(config);
        PostgresConnectorTask task = new PostgresConnectorTask();
        task.initialize(new NoTaskContext(config));
        task.start(connector.taskConfigs(1).get(0));
        try {
            boolean more = true;
            while (more) {
                List<SourceRecord> records = task.poll();
                if (records == null) {
                    continue;
                }
                for (SourceRecord record : records) {
                    String table = tableOf(record);
                    if ("end of capture".equals(table)) {
                        more = false;
                    }
                    else if (cases.containsKey(table)) {
                        cases.get(table).handle(record);
                    }
                }
            }
        }
        finally {
            task.stop();
            connector.stop();
        }
    }

    /** The table a change belongs to; a logical message belongs to the case whose table its prefix names. */
    private static String tableOf(SourceRecord record) {
        if (record.value() instanceof Struct value) {
            if (value.schema().field("message") != null) {
                return value.getStruct("message").getString("prefix");
            }
            if (value.schema().field("source") != null) {
                Struct source = value.getStruct("source");
                return source.getString("schema") + "." + source.getString("table");
            }
        }
        return record.topic().substring(record.topic().indexOf('.') + 1);
    }

    /** One chain of transformations and converters. */
    private static final class Case {
        private final String name;
        private final List<Stage> stages = new ArrayList<>();
        private Converter keys;
        private Converter values;
        private HeaderConverter headers;
        private String refusal;

        Case(JsonNode node) {
            name = node.get("name").asText();
            Map<String, String> config = strings(node.get("config"));
            try {
                for (String alias : config.getOrDefault("transforms", "").split(",")) {
                    if (!alias.isBlank()) {
                        stages.add(new Stage(config, alias.trim()));
                    }
                }
                keys = converter(config, "key.converter", true);
                values = converter(config, "value.converter", false);
                headers = headerConverter(config);
            }
            catch (Throwable t) {
                refusal = described(t);
                ObjectNode line = JSON.createObjectNode();
                line.put("case", name);
                line.put("refused", refusal);
                print(line);
            }
        }

        void handle(SourceRecord source) {
            if (refusal != null) {
                return;
            }
            ObjectNode line = JSON.createObjectNode();
            line.put("case", name);
            try {
                SourceRecord record = source;
                for (Stage stage : stages) {
                    record = stage.apply(record);
                    if (record == null) {
                        line.put("dropped", operation(source));
                        print(line);
                        return;
                    }
                }
                put(line, record, source);
            }
            catch (Throwable t) {
                line.put("dies", described(t));
            }
            print(line);
        }

        private void put(ObjectNode line, SourceRecord record, SourceRecord source) {
            // As WorkerSourceTask.convertTransformedRecord: headers, key, value, and a ProducerRecord of them.
            var sent = new org.apache.kafka.common.header.internals.RecordHeaders();
            for (Header header : record.headers()) {
                sent.add(header.key(), headers.fromConnectHeader(record.topic(), header.key(), header.schema(), header.value()));
            }
            byte[] key = keys.fromConnectData(record.topic(), sent, record.keySchema(), record.key());
            byte[] value = values.fromConnectData(record.topic(), sent, record.valueSchema(), record.value());
            Long timestamp = ConnectUtils.checkAndConvertTimestamp(record.timestamp());
            new ProducerRecord<>(record.topic(), record.kafkaPartition(), timestamp, key, value, sent);
            Topic.validate(record.topic()); // a broker does this; the producer fails, and with it the task

            line.put("topic", record.topic());
            line.put("partition", record.kafkaPartition());
            if (timestamp != null && !timestamp.equals(clock(source))) {
                line.put("timestamp", timestamp);
            }
            line.put("key", encoded(key));
            line.put("value", encoded(value));
            ArrayNode list = line.putArray("headers");
            for (var header : sent) {
                ObjectNode node = list.addObject();
                node.put("key", header.key());
                node.put("value", encoded(header.value()));
            }
        }
    }

    /** When Debezium handled the row, by its own clock. */
    private static Long clock(SourceRecord source) {
        return source.value() instanceof Struct value && value.schema().field("ts_ms") != null ? value.getInt64("ts_ms") : null;
    }

    private static String operation(SourceRecord source) {
        return source.value() instanceof Struct value ? value.getString("op") : "tombstone";
    }

    private static final class Stage {
        private final Transformation<SourceRecord> transformation;
        private Predicate<SourceRecord> predicate;
        private boolean negate;

        @SuppressWarnings("unchecked")
        Stage(Map<String, String> config, String alias) throws Exception {
            Map<String, String> own = prefixed(config, "transforms." + alias + ".");
            transformation = (Transformation<SourceRecord>) Class.forName(own.remove("type")).getDeclaredConstructor().newInstance();
            negate = Boolean.parseBoolean(own.remove("negate"));
            String name = own.remove("predicate");
            if (name != null) {
                Map<String, String> of = prefixed(config, "predicates." + name + ".");
                predicate = (Predicate<SourceRecord>) Class.forName(of.remove("type")).getDeclaredConstructor().newInstance();
                predicate.configure(of);
            }
            transformation.configure(own);
        }

        SourceRecord apply(SourceRecord record) {
            return predicate == null || predicate.test(record) != negate ? transformation.apply(record) : record;
        }
    }

    private static Converter converter(Map<String, String> config, String option, boolean key) throws Exception {
        String type = config.getOrDefault(option, "org.apache.kafka.connect.json.JsonConverter");
        Converter converter = (Converter) Class.forName(type).getDeclaredConstructor().newInstance();
        converter.configure(prefixed(config, option + "."), key);
        return converter;
    }

    private static HeaderConverter headerConverter(Map<String, String> config) throws Exception {
        String type = config.getOrDefault("header.converter", "org.apache.kafka.connect.storage.SimpleHeaderConverter");
        HeaderConverter converter = (HeaderConverter) Class.forName(type).getDeclaredConstructor().newInstance();
        Map<String, String> own = prefixed(config, "header.converter.");
        own.put("converter.type", "header");
        converter.configure(own);
        return converter;
    }

    private static Map<String, String> prefixed(Map<String, String> config, String prefix) {
        Map<String, String> found = new HashMap<>();
        config.forEach((key, value) -> {
            if (key.startsWith(prefix)) {
                found.put(key.substring(prefix.length()), value);
            }
        });
        return found;
    }

    private static Map<String, String> strings(JsonNode node) {
        Map<String, String> map = new HashMap<>();
        node.fields().forEachRemaining(entry -> map.put(entry.getKey(), entry.getValue().asText()));
        return map;
    }

    private static String encoded(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    private static String described(Throwable t) {
        String message = t.getMessage();
        return t.getClass().getName() + (message == null ? "" : ": " + message);
    }

    private static synchronized void print(ObjectNode line) {
        out.println(line);
        out.flush();
    }

    /** No offsets are kept: every run begins at its slot. */
    private static final class NoOffsets implements OffsetStorageReader {
        @Override
        public <T> Map<String, Object> offset(Map<String, T> partition) {
            return null;
        }

        @Override
        public <T> Map<Map<String, T>, Map<String, Object>> offsets(Collection<Map<String, T>> partitions) {
            return Collections.emptyMap();
        }
    }

    private record NoTaskContext(Map<String, String> configs) implements SourceTaskContext {
        @Override
        public OffsetStorageReader offsetStorageReader() {
            return new NoOffsets();
        }

        @Override
        public PluginMetrics pluginMetrics() {
            return null;
        }
    }

    private static final class NoConnectorContext implements ConnectorContext {
        @Override
        public void requestTaskReconfiguration() {
        }

        @Override
        public void raiseError(Exception e) {
            e.printStackTrace();
        }

        @Override
        public PluginMetrics pluginMetrics() {
            return null;
        }
    }
}
