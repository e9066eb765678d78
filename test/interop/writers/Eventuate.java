// Writes with Eventuate Tram's producer, in two steps: DSN create, then DSN write.
import io.eventuate.common.id.ApplicationIdGenerator;
import io.eventuate.common.jdbc.EventuateCommonJdbcOperations;
import io.eventuate.common.jdbc.EventuateJdbcOperationsUtils;
import io.eventuate.common.jdbc.EventuateSchema;
import io.eventuate.common.jdbc.OutboxPartitioningSpec;
import io.eventuate.common.jdbc.sqldialect.PostgresDialect;
import io.eventuate.common.spring.jdbc.EventuateSpringJdbcStatementExecutor;
import io.eventuate.tram.messaging.common.DefaultChannelMapping;
import io.eventuate.tram.messaging.common.MessageInterceptor;
import io.eventuate.tram.messaging.producer.MessageBuilder;
import io.eventuate.tram.messaging.producer.common.MessageProducerImpl;
import io.eventuate.tram.messaging.producer.jdbc.MessageProducerJdbcImpl;
import java.net.URI;
import org.postgresql.Driver;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SimpleDriverDataSource;

public class Eventuate {
  public static void main(String[] args) {
    URI dsn = URI.create(args[0]);
    String url = "jdbc:postgresql://" + dsn.getHost() + ":" + dsn.getPort() + dsn.getPath();
    JdbcTemplate jdbc =
        new JdbcTemplate(new SimpleDriverDataSource(new Driver(), url, dsn.getUserInfo().split(":")[0], ""));
    if (args[1].equals("create")) {
      // The library brings no schema: this is the published one of its images.
      jdbc.execute(
          "CREATE SCHEMA eventuate; CREATE TABLE eventuate.message (id VARCHAR(1000) PRIMARY KEY, destination TEXT NOT"
              + " NULL, headers TEXT NOT NULL, payload TEXT NOT NULL, published SMALLINT DEFAULT 0, message_partition"
              + " SMALLINT, creation_time BIGINT)");
      return;
    }
    PostgresDialect dialect = new PostgresDialect();
    var operations =
        new EventuateCommonJdbcOperations(
            new EventuateJdbcOperationsUtils(dialect),
            new EventuateSpringJdbcStatementExecutor(jdbc),
            dialect,
            OutboxPartitioningSpec.DEFAULT);
    var producer =
        new MessageProducerImpl(
            new MessageInterceptor[0],
            DefaultChannelMapping.builder().build(),
            new MessageProducerJdbcImpl(operations, new ApplicationIdGenerator(), new EventuateSchema()));
    producer.send(
        "tram.orders",
        MessageBuilder.withPayload("{\"orderId\": \"o-1\"}")
            .withHeader("PARTITION_ID", "o-1")
            .withHeader("event-type", "OrderPaid")
            .build());
  }
}
