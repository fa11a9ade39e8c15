package headrace;

import java.lang.reflect.Field;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.command.SetCommand;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.FunctionConverters;

/**
 * The configuration of Spark sessions: which keys SQL may set, and values for single statements.
 *
 * Spark plans each SET, also one that EXECUTE IMMEDIATE runs, with the strategies of its session
 * before it executes the SET. A clone of a session has the strategies of the original.
 */
public final class SessionConf extends SparkStrategy {
  private Pattern[] patterns = new Pattern[0];
  private String[] refusals = new String[0];

  public SessionConf() {}

  /**
   * Registers options of Headrace, so that Spark refuses a wrong value as it does for its own.
   *
   * The registry belongs to the JVM. An option that is registered already is not changed.
   *
   * @param types Regular expressions that match the values.
   */
  public static void register(String[] keys, String[] types, String[] allowed, String[] docs) {
    for (int i = 0; i < keys.length; i++) {
      if (!SQLConf$.MODULE$.containsConfigKey(keys[i])) {
        SQLConf$.MODULE$.buildConf(keys[i]).doc(docs[i]).version("0.1").stringConf().checkValue(
            FunctionConverters.asScalaFromPredicate(Pattern.compile(types[i]).asMatchPredicate()),
            allowed[i]).createOptional();
      }
    }
  }

  /**
   * Refuses SET in a session for the keys that the rules forbid.
   *
   * @param rules Regular expressions. For each key, the first one that matches applies.
   * @param refusals The message for each rule; empty: the keys are allowed.
   */
  public synchronized void install(SparkSession session, String[] rules, String[] refusals) {
    Pattern[] compiled = new Pattern[rules.length];
    for (int i = 0; i < rules.length; i++) {
      compiled[i] = Pattern.compile(rules[i]);
    }
    this.patterns = compiled;
    this.refusals = refusals;
    Seq strategies = session.experimental().extraStrategies();
    if (!strategies.contains(this)) {
      session.experimental().extraStrategies_$eq((Seq) strategies.prepended(this));
    }
  }

  /** Plans nothing, and throws an exception for a SET of a forbidden key. */
  public Seq apply(LogicalPlan plan) {
    if (plan instanceof SetCommand) {
      Option pair = ((SetCommand) plan).kv();
      if (pair.isDefined() && ((Option) ((Tuple2) pair.get())._2()).isDefined()) {
        check((String) ((Tuple2) pair.get())._1());
      }
    }
    return (Seq) Nil$.MODULE$;
  }

  private void check(String key) {
    for (int i = 0; i < patterns.length; i++) {
      if (patterns[i].matcher(key).matches()) {
        if (refusals[i].isEmpty()) {
          return;
        }
        throw new IllegalArgumentException(refusals[i].replace("{key}", key));
      }
    }
  }

  /**
   * Sets keys for one statement.
   *
   * @param values As many as keys; null: the key is unset.
   * @return What `restore` needs.
   */
  public Object[] override(SparkSession session, String[] keys, String[] values) {
    SQLConf conf = session.sessionState().conf();
    Map settings = conf.settings();
    Object[] earlier = new Object[keys.length];
    Object[] own = new Object[keys.length];
    int done = 0;
    try {
      for (; done < keys.length; done++) {
        earlier[done] = settings.get(keys[done]);
        session.conf().set(keys[done], values[done]);
        own[done] = settings.get(keys[done]);
      }
    } finally {
      if (done < keys.length) {
        for (int i = 0; i < done; i++) {
          put(settings, keys[i], earlier[i]);
        }
      }
    }
    return new Object[] {keys, earlier, own};
  }

  /**
   * Restores the values from before `override`, except those that the statement itself has changed.
   *
   * A SET stores another String object, also if its text is the same.
   */
  public void restore(SparkSession session, Object[] state) {
    Map settings = session.sessionState().conf().settings();
    String[] keys = (String[]) state[0];
    Object[] earlier = (Object[]) state[1];
    Object[] own = (Object[]) state[2];
    for (int i = 0; i < keys.length; i++) {
      if (settings.get(keys[i]) == own[i]) {
        put(settings, keys[i], earlier[i]);
      }
    }
  }

  /**
   * Lets RESET return to these values, as it does to those with which a session was built.
   *
   * A session that Spark has cloned has none: ResetCommand reads the private field of the session.
   */
  public static void setInitial(SparkSession session, scala.collection.immutable.Map values)
      throws Exception {
    Field field = SparkSession.class.getDeclaredField("initialSessionOptions");
    field.setAccessible(true);
    field.set(session, values);
  }

  private static void put(Map settings, String key, Object value) {
    if (value == null) {
      settings.remove(key);
    } else {
      settings.put(key, value);
    }
  }
}
