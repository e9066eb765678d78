import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Prints each committed record of a topic as a line of JSON: java -cp 'jars/*' Dump.java brokers topic. */
public class Dump {
  public static void main(String[] args) throws Exception {
    Properties config = new Properties();
    config.put("bootstrap.servers", args[0]);
    config.put("isolation.level", "read_committed");
    config.put("enable.auto.commit", "false");
    StringBuilder out = new StringBuilder();
    try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      List<TopicPartition> all = new ArrayList<>();
      for (PartitionInfo p : consumer.partitionsFor(args[1])) {
        all.add(new TopicPartition(p.topic(), p.partition()));
      }
      consumer.assign(all);
      consumer.seekToBeginning(all);
      Map<TopicPartition, Long> ends = consumer.endOffsets(all);
      while (all.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
        for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(200))) {
          print(out, r);
        }
      }
    }
    System.out.print(out);
  }

  static void print(StringBuilder out, ConsumerRecord<byte[], byte[]> r) throws Exception {
    out.append("{\"p\":").append(r.partition()).append(",\"o\":").append(r.offset());
    out.append(",\"t\":").append(r.timestamp()).append(",\"k\":").append(base64(r.key()));
    out.append(",\"v\":").append(sha256(r.value())).append(",\"h\":[");
    String comma = "";
    for (Header h : r.headers()) {
      out.append(comma).append("[").append(base64(h.key().getBytes("UTF-8"))).append(",");
      out.append(base64(h.value())).append("]");
      comma = ",";
    }
    out.append("]}\n");
  }

  static String base64(byte[] b) {
    return b == null ? "null" : "\"" + Base64.getEncoder().encodeToString(b) + "\"";
  }

  static String sha256(byte[] b) throws Exception {
    return b == null ? "null" : "\"" + HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(b)) + "\"";
  }
}
