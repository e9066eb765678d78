import java.util.Base64;
import java.util.Properties;
import java.util.Scanner;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Produces a record for each key, a line of base64 each on standard input, with the default partitioner, and prints
 * its partition: java -cp 'jars/*' Partitions.java brokers topic.
 */
public class Partitions {
  public static void main(String[] args) throws Exception {
    Properties config = new Properties();
    config.put("bootstrap.servers", args[0]);
    config.put("acks", "all");
    StringBuilder out = new StringBuilder();
    try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
        Scanner in = new Scanner(System.in)) {
      var sent = new java.util.ArrayList<java.util.concurrent.Future<org.apache.kafka.clients.producer.RecordMetadata>>();
      while (in.hasNextLine()) {
        byte[] key = Base64.getDecoder().decode(in.nextLine());
        sent.add(producer.send(new ProducerRecord<>(args[1], key, new byte[0])));
      }
      producer.flush();
      for (var one : sent) {
        out.append(one.get().partition()).append("\n");
      }
    }
    System.out.print(out);
  }
}
