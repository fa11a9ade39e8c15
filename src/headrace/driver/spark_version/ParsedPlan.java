package headrace;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.plans.logical.CompoundBody;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.SingleStatement;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedTableSpec;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Reads and copies plans of Spark's parser, which would take a call from Python for each part. */
public class ParsedPlan {
    private static final ObjectMapper JSON = new ObjectMapper();

    /**
     * Return the class names of a plan and of all its parts, one on each line.
     *
     * <p>The parts of a script are its statements and those of its handlers, with their parts.
     */
    public String findKinds(LogicalPlan plan) {
        Set kinds = new LinkedHashSet();
        addKinds(plan, kinds);
        StringBuilder lines = new StringBuilder();
        Iterator each = kinds.iterator();
        while (each.hasNext()) {
            lines.append(each.next()).append('\n');
        }
        return lines.toString();
    }

    /**
     * Return a copy of a CREATE TABLE AS SELECT with another target.
     *
     * @param parts JSON array with the parts of the name of the new target
     * @param location URI that overrides the LOCATION clause; null keeps the clause
     * @param properties JSON object with table properties besides those of the statement
     * @param query the rows to write; null keeps the query of the statement
     * @param replaces whether the copy is a REPLACE TABLE AS SELECT
     * @param flag IF NOT EXISTS of a CREATE TABLE, and OR CREATE of a REPLACE TABLE
     */
    public LogicalPlan retarget(CreateTableAsSelect plan, String parts, String location,
            String properties, LogicalPlan query, boolean replaces, boolean flag)
            throws Exception {
        UnresolvedTableSpec spec = (UnresolvedTableSpec) plan.tableSpec();
        scala.collection.immutable.Map tableProperties = spec.properties();
        Iterator added = ((Map) JSON.readValue(properties, Map.class)).entrySet().iterator();
        while (added.hasNext()) {
            Map.Entry entry = (Map.Entry) added.next();
            tableProperties = (scala.collection.immutable.Map)
                tableProperties.updated(entry.getKey(), entry.getValue());
        }
        UnresolvedTableSpec copy = new UnresolvedTableSpec(
            tableProperties, spec.provider(), spec.optionExpression(),
            location == null ? spec.location() : Option.apply(location), spec.comment(),
            spec.collation(), spec.serde(), spec.external(), spec.constraints());
        List names = new ArrayList((List) JSON.readValue(parts, List.class));
        LogicalPlan name = new UnresolvedIdentifier(
            (Seq) CollectionConverters.asScala(names).toSeq(), false);
        LogicalPlan rows = query == null ? plan.query() : query;
        if (replaces) {
            return new ReplaceTableAsSelect(name, plan.partitioning(), rows, copy,
                plan.writeOptions(), flag, plan.isAnalyzed());
        }
        return new CreateTableAsSelect(name, plan.partitioning(), rows, copy,
            plan.writeOptions(), flag, plan.isAnalyzed());
    }

    private static void addKinds(LogicalPlan plan, Set kinds) {
        if (plan instanceof SingleStatement) {
            addKinds(((SingleStatement) plan).parsedPlan(), kinds);
            return;
        }
        kinds.add(plan.productPrefix());
        addKindsOf(plan.children(), kinds);
        if (plan instanceof CompoundBody) {
            addKindsOf(((CompoundBody) plan).handlers(), kinds);
        }
    }

    private static void addKindsOf(scala.collection.Seq plans, Set kinds) {
        scala.collection.Iterator each = plans.iterator();
        while (each.hasNext()) {
            addKinds((LogicalPlan) each.next(), kinds);
        }
    }
}
