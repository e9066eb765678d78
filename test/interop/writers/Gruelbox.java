// Writes with gruelbox transaction-outbox, in two steps: DSN create, then DSN write.
import com.gruelbox.transactionoutbox.Dialect;
import com.gruelbox.transactionoutbox.Instantiator;
import com.gruelbox.transactionoutbox.Persistor;
import com.gruelbox.transactionoutbox.TransactionManager;
import com.gruelbox.transactionoutbox.TransactionOutbox;
import java.net.URI;

public class Gruelbox {
  public static class Payments {
    public void charge(String order, int cents) {}
  }

  public static void main(String[] args) throws Exception {
    URI dsn = URI.create(args[0]);
    TransactionManager transactions =
        TransactionManager.fromConnectionDetails(
            "org.postgresql.Driver",
            "jdbc:postgresql://" + dsn.getHost() + ":" + dsn.getPort() + dsn.getPath(),
            dsn.getUserInfo().split(":")[0],
            "");
    // The outbox makes its table when it is built. Nothing carries the call out: that is the relay's part.
    TransactionOutbox outbox =
        TransactionOutbox.builder()
            .transactionManager(transactions)
            .instantiator(Instantiator.using(c -> new Payments()))
            .persistor(Persistor.forDialect(Dialect.POSTGRESQL_9))
            .submitter((entry, local) -> {})
            .build();
    if (args[1].equals("write")) {
      transactions.inTransaction(() -> outbox.schedule(Payments.class).charge("o-5", 1250));
    }
    System.exit(0);
  }
}
