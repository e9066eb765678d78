// Writes with Spring Modulith's event publication registry, in two steps: DSN create, then DSN write.
import java.net.URI;
import java.util.Map;
import javax.sql.DataSource;
import org.postgresql.Driver;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ApplicationEventPublisher;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.datasource.SimpleDriverDataSource;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.event.TransactionalEventListener;
import org.springframework.transaction.support.TransactionTemplate;

public class Modulith {
  public record OrderPaid(String orderId, int cents) {}

  static URI dsn;

  @Configuration(proxyBeanMethods = false)
  @EnableAutoConfiguration
  public static class App {
    @Bean
    DataSource dataSource() {
      String url = "jdbc:postgresql://" + dsn.getHost() + ":" + dsn.getPort() + dsn.getPath();
      return new SimpleDriverDataSource(new Driver(), url, dsn.getUserInfo().split(":")[0], "");
    }

    @Bean
    PlatformTransactionManager transactions(DataSource source) {
      return new DataSourceTransactionManager(source);
    }

    @Bean
    Listener listener() {
      return new Listener();
    }
  }

  public static class Listener {
    @TransactionalEventListener
    public void on(OrderPaid event) {}
  }

  public static void main(String[] args) {
    dsn = URI.create(args[0]);
    SpringApplication app = new SpringApplication(App.class);
    app.setDefaultProperties(Map.of(
        "spring.modulith.events.jdbc.schema-initialization.enabled", "true",
        "spring.modulith.events.externalization.enabled", "false",
        "spring.main.web-application-type", "none", "spring.main.banner-mode", "off"));
    try (var context = app.run()) {
      if (args[1].equals("write")) {
        ApplicationEventPublisher events = context;
        new TransactionTemplate(context.getBean(PlatformTransactionManager.class))
            .executeWithoutResult(status -> events.publishEvent(new OrderPaid("o-6", 1250)));
      }
    }
  }
}
