// BaseX in this process: imports a document, looks up customers by their ids, changes words.
// Prints a line of JSON; see compare/src/xml/basex.rs.
//
// Arguments: file, namespace, first id, customers, lookups, updates, what new words begin with, seed.

import java.util.Random;
import org.basex.core.Context;
import org.basex.core.MainOptions;
import org.basex.core.cmd.Close;
import org.basex.core.cmd.CreateDB;
import org.basex.query.QueryProcessor;

public final class BaseXPeer {
  private static final String NAME = "custacc";
  private static final Context CONTEXT = new Context();
  private static String namespace;

  private static String query(String text, String id, String word) throws Exception {
    String head = "declare namespace c = '" + namespace + "'; "
        + "declare variable $id external; declare variable $word external; ";
    try (QueryProcessor processor = new QueryProcessor(head + text, CONTEXT)) {
      processor.variable("id", id);
      processor.variable("word", word);
      return processor.value().serialize().toString();
    }
  }

  private static final String CUSTOMER = "db:get('" + NAME + "')/custacc/c:Customer[@id = $id]";

  private static void lookUp(Random random, long first, long customers, long count)
      throws Exception {
    for (long number = 0; number < count; number++) {
      String id = Long.toString(first + random.nextLong(customers));
      String text = query(CUSTOMER, id, "");
      if (!text.contains("id=\"" + id + "\"") || !text.endsWith("</Customer>")) {
        throw new IllegalStateException("a customer has not the id that was looked for: " + id);
      }
    }
  }

  public static void main(String[] arguments) throws Exception {
    String file = arguments[0];
    namespace = arguments[1];
    long first = Long.parseLong(arguments[2]);
    long customers = Long.parseLong(arguments[3]);
    long lookups = Long.parseLong(arguments[4]);
    long updates = Long.parseLong(arguments[5]);
    String newWord = arguments[6];
    Random random = new Random(Long.parseLong(arguments[7]));
    // Indexes stay right after changes, as those of the others do.
    CONTEXT.options.set(MainOptions.UPDINDEX, true);

    long started = System.nanoTime();
    new CreateDB(NAME, file).execute(CONTEXT);
    double importSeconds = (System.nanoTime() - started) / 1e9;

    lookUp(random, first, customers, lookups);
    started = System.nanoTime();
    lookUp(random, first, customers, lookups);
    double lookupMs = (System.nanoTime() - started) / 1e6 / lookups;

    String change = "replace value of node " + CUSTOMER + "/c:Mnemonic/text() with $word";
    started = System.nanoTime();
    for (long number = 0; number < updates; number++) {
      String id = Long.toString(first + number * 7919 % customers);
      query(change, id, newWord + number);
    }
    double updateMs = (System.nanoTime() - started) / 1e6 / updates;

    for (long number = 0; number < Math.min(updates, customers); number++) {
      String id = Long.toString(first + number * 7919 % customers);
      if (!query(CUSTOMER, id, "").contains("<Mnemonic>" + newWord)) {
        throw new IllegalStateException("a word that was changed is not there: " + id);
      }
    }
    new Close().execute(CONTEXT);
    CONTEXT.close();
    System.out.println("{\"import_s\": " + importSeconds + ", \"lookup_ms\": " + lookupMs
        + ", \"update_ms\": " + updateMs + "}");
  }
}
