package headrace;

import com.google.flatbuffers.FlatBufferBuilder;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Channels;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import org.apache.arrow.flatbuf.FieldNode;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.flatbuf.RecordBatch;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.BufferLayout;
import org.apache.arrow.vector.BufferLayout.BufferType;
import org.apache.arrow.vector.TypeLayout;
import org.apache.arrow.vector.VectorLoader;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.VectorUnloader;
import org.apache.arrow.vector.ipc.ReadChannel;
import org.apache.arrow.vector.ipc.WriteChannel;
import org.apache.arrow.vector.ipc.message.ArrowBlock;
import org.apache.arrow.vector.ipc.message.ArrowFooter;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.hadoop.fs.Path;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils$;
import org.apache.spark.util.CollectionAccumulator;
import org.apache.spark.util.SerializableConfiguration;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Runs on each partition of a query: writes the rows as an Arrow file, or returns a few of them.
 *
 * <p>Spark converts the rows to record batches, each an encapsulated IPC message
 * (https://arrow.apache.org/docs/format/Columnar.html). A file contains the same messages. A batch
 * ends when its rows have about `batchLimit` bytes, so that wide rows do not fill the memory.
 */
public class ResultTask implements Function2 {
    private static final int BATCH_ROWS = 10000;

    private final StructType rowType;
    private final long takenRows;
    private final byte[] schemaMessage;
    private final String location;
    private final SerializableConfiguration hadoop;
    private final long bufferBytes;
    private final int fullBuffers;
    private final long minBufferBytes;
    private final long batchLimit;
    private final long rowLimit;
    private final long byteLimit;
    private final CollectionAccumulator finished;

    /**
     * Make the task of all partitions.
     *
     * @param rowType Spark's schema of the rows.
     * @param takenRows Number of rows to take from each partition; -1: all.
     * @param schemaMessage The stored schema as an IPC message.
     * @param location Directory of the result: a path, or a URI if there is a configuration.
     * @param hadoop Configuration of the file system, or null for a local path.
     * @param bufferBytes Bytes that each of the first `fullBuffers` tasks may return. Later ones
     *     may return less, but at least `minBufferBytes`.
     * @param batchLimit Maximum bytes of a batch of several rows.
     * @param rowLimit Number of rows after which a task may stop; -1: none.
     * @param byteLimit Number of bytes after which a task may stop; -1: none.
     * @param finished Receives the report of each task, without rows, or null.
     */
    public ResultTask(
            StructType rowType, long takenRows, byte[] schemaMessage, String location, SerializableConfiguration hadoop,
            long bufferBytes, int fullBuffers, long minBufferBytes, long batchLimit,
            long rowLimit, long byteLimit, CollectionAccumulator finished) {
        this.rowType = rowType;
        this.takenRows = takenRows;
        this.schemaMessage = schemaMessage;
        this.location = location;
        this.hadoop = hadoop;
        this.bufferBytes = bufferBytes;
        this.fullBuffers = fullBuffers;
        this.minBufferBytes = minBufferBytes;
        this.batchLimit = batchLimit;
        this.rowLimit = rowLimit;
        this.byteLimit = byteLimit;
        this.finished = finished;
    }

    /**
     * Run the task on one partition after another, until they have enough rows, and return the
     * reports. As Spark does for a LIMIT, the number of partitions grows fourfold from job to job.
     */
    public static List collectFirst(JavaRDD reports, int enough) {
        List collected = new ArrayList();
        int partitions = reports.getNumPartitions();
        long rows = 0L;
        int count = 1;
        for (int start = 0; start < partitions && rows < enough; start += count, count *= 4) {
            count = Math.min(count, partitions - start);
            int[] numbers = new int[count];
            for (int i = 0; i < count; i++) {
                numbers[i] = start + i;
            }
            List[] ofPartitions = reports.collectPartitions(numbers);
            for (int i = 0; i < count; i++) {
                for (int j = 0; j < ofPartitions[i].size(); j++) {
                    byte[] report = (byte[]) ofPartitions[i].get(j);
                    collected.add(report);
                    rows += ResultTaskFormat.countRows(report);
                }
            }
        }
        return collected;
    }

    /** Return the report of a partition, or nothing for an empty one. */
    public Object call(Object partition, Object rows) throws Exception {
        int number = ((Integer) partition).intValue();
        // The id of the attempt keeps retries and speculative tasks from writing the same file.
        String name = String.format("part-%06d-%d.arrow", new Object[] {
            partition, Long.valueOf(TaskContext.get().taskAttemptId())});
        ResultWriter writer = new ResultWriter(this, name, bufferBytesOf(number));
        String failure = null;
        boolean isComplete = false;
        try {
            scala.collection.Iterator streams = toStreams((Iterator) rows);
            while (!writer.exceedsLimit(rowLimit, byteLimit) && streams.hasNext()) {
                writer.add(ResultTaskFormat.batchOf((byte[]) streams.next()));
            }
            writer.close();
            // Spark drops the report of a killed task, and nobody would know of its file.
            TaskContext.get().killTaskIfInterrupted();
            isComplete = true;
        } catch (LocationNotWritable error) {
            // Reported instead of thrown: Spark would retry the task, but a full disk stays full.
            failure = error.getMessage();
        } finally {
            if (!isComplete) {
                writer.discard();
            }
        }
        if (finished != null && failure == null) {
            finished.add(writer.report(number, null, false));
        }
        if (failure == null && writer.isEmpty()) {
            return Collections.emptyIterator();
        }
        return Collections.singletonList(writer.report(number, failure, true)).iterator();
    }

    /** Convert rows to Arrow streams of one batch each. Only this converter limits their bytes. */
    private scala.collection.Iterator toStreams(Iterator rows) {
        scala.collection.Iterator taken = CollectionConverters.asScala(rows);
        if (takenRows >= 0) {
            taken = taken.take((int) takenRows);
        }
        // Values of Arrow's timestamps do not depend on the time zone.
        return ArrowConverters$.MODULE$.toBatchWithSchemaIterator(
            taken, rowType, (long) BATCH_ROWS, batchLimit, "UTC", false, false);
    }

    Schema schema() throws IOException {
        return MessageSerializer.deserializeSchema(
            new ReadChannel(Channels.newChannel(new ByteArrayInputStream(schemaMessage))));
    }

    byte[] schemaMessage() {
        return schemaMessage;
    }

    long batchLimit() {
        return batchLimit;
    }

    OutputStream create(String name) throws IOException {
        OutputStream file;
        if (hadoop == null) {
            file = new FileOutputStream(new File(location, name));
        } else {
            Path path = new Path(location + "/" + name);
            file = path.getFileSystem(hadoop.value()).create(path, true);
        }
        return new BufferedOutputStream(file, 1 << 16);
    }

    void delete(String name) throws IOException {
        if (hadoop == null) {
            new File(location, name).delete();
        } else {
            Path path = new Path(location + "/" + name);
            path.getFileSystem(hadoop.value()).delete(path, false);
        }
    }

    private long bufferBytesOf(int partition) {
        long share = bufferBytes * fullBuffers / Math.max(partition + 1, fullBuffers);
        return Math.min(bufferBytes, Math.max(share, minBufferBytes));
    }
}

/** An error of the file system, with its own message. Clients also throw unchecked exceptions. */
class LocationNotWritable extends Exception {
    LocationNotWritable(Exception error) {
        super(error.getMessage() == null ? error.getClass().getSimpleName() : error.getMessage());
    }
}

/** Keeps the batches of a partition in memory up to a limit, and writes a file beyond it. */
class ResultWriter {
    private final ResultTask task;
    private final String name;
    private final long bufferBytes;
    private final Schema schema;
    private final List messages = new ArrayList();
    private final List messageSizes = new ArrayList();
    private final List blocks = new ArrayList();
    private final List rows = new ArrayList();
    private final List sizes = new ArrayList();
    private long rowTotal;
    private long byteTotal;
    private OutputStream file;
    private boolean hasFile;
    private long position;

    ResultWriter(ResultTask task, String name, long bufferBytes) throws IOException {
        this.task = task;
        this.name = name;
        this.bufferBytes = bufferBytes;
        this.schema = task.schema();
    }

    boolean isEmpty() {
        return rows.isEmpty();
    }

    boolean exceedsLimit(long rowLimit, long byteLimit) {
        return (rowLimit >= 0 && rowTotal > rowLimit) || (byteLimit >= 0 && byteTotal > byteLimit);
    }

    /** Add a batch: in pieces if it is too large, and never compressed, because nodes refuse that. */
    void add(byte[] message) throws Exception {
        BatchSize size = new BatchSize(message, schema);
        if (size.isCompressed) {
            addAgain(message, 1);
        } else if (size.bytes <= task.batchLimit() || size.rows <= 1) {
            addPiece(message, size);
        } else {
            addAgain(message, (int) Math.min(size.rows, size.bytes / task.batchLimit() + 1));
        }
    }

    /** Decode a batch, and add its rows in pieces of about the same number. */
    private void addAgain(byte[] message, int pieces) throws Exception {
        BufferAllocator allocator = ArrowUtils$.MODULE$.rootAllocator().newChildAllocator(
            "headrace result", 0, Long.MAX_VALUE);
        List parts = new ArrayList();
        try {
            VectorSchemaRoot root = VectorSchemaRoot.create(schema, allocator);
            try {
                load(message, root, allocator);
                int count = root.getRowCount();
                int step = (count + pieces - 1) / pieces;
                for (int start = 0; start < count; start += step) {
                    parts.add(serialize(root, start, Math.min(step, count - start)));
                }
            } finally {
                root.close();
            }
        } finally {
            allocator.close();
        }
        for (int i = 0; i < parts.size(); i++) {
            add((byte[]) parts.get(i));
        }
    }

    private static void load(byte[] message, VectorSchemaRoot root, BufferAllocator allocator)
            throws IOException {
        ArrowRecordBatch batch = MessageSerializer.deserializeRecordBatch(
            new ReadChannel(Channels.newChannel(new ByteArrayInputStream(message))), allocator);
        try {
            new VectorLoader(root).load(batch);
        } finally {
            batch.close();
        }
    }

    private static byte[] serialize(VectorSchemaRoot root, int start, int count)
            throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        VectorSchemaRoot slice = root.slice(start, count);
        try {
            ArrowRecordBatch part = new VectorUnloader(slice).getRecordBatch();
            try {
                MessageSerializer.serialize(new WriteChannel(Channels.newChannel(bytes)), part);
            } finally {
                part.close();
            }
        } finally {
            slice.close();
        }
        return bytes.toByteArray();
    }

    private void addPiece(byte[] message, BatchSize size) throws LocationNotWritable {
        rows.add(Long.valueOf(size.rows));
        sizes.add(Long.valueOf(size.bytes));
        rowTotal += size.rows;
        byteTotal += size.bytes;
        if (hasFile) {
            write(message, size);
            return;
        }
        messages.add(message);
        messageSizes.add(size);
        if (byteTotal > bufferBytes) {
            spill();
        }
    }

    private void spill() throws LocationNotWritable {
        try {
            hasFile = true;
            file = task.create(name);
            file.write(ResultTaskFormat.HEAD);
            file.write(task.schemaMessage());
            position = ResultTaskFormat.HEAD.length + task.schemaMessage().length;
        } catch (Exception error) {
            throw new LocationNotWritable(error);
        }
        for (int i = 0; i < messages.size(); i++) {
            write((byte[]) messages.get(i), (BatchSize) messageSizes.get(i));
        }
        messages.clear();
        messageSizes.clear();
    }

    private void write(byte[] message, BatchSize size) throws LocationNotWritable {
        try {
            file.write(message);
        } catch (Exception error) {
            throw new LocationNotWritable(error);
        }
        blocks.add(new ArrowBlock(position, size.metadataBytes, size.bodyBytes));
        position += message.length;
    }

    void close() throws LocationNotWritable {
        if (!hasFile) {
            return;
        }
        FlatBufferBuilder builder = new FlatBufferBuilder();
        builder.finish(new ArrowFooter(schema, new ArrayList(), blocks).writeTo(builder));
        byte[] footer = builder.sizedByteArray();
        try {
            file.write(ResultTaskFormat.tail(footer));
            file.close();
        } catch (Exception error) {
            throw new LocationNotWritable(error);
        }
    }

    /** Delete the file. Errors are ignored, because the driver cleans up the location too. */
    void discard() {
        if (hasFile) {
            try {
                if (file != null) {
                    file.close();
                }
            } catch (Exception error) {
                // The file is deleted all the same.
            }
            try {
                task.delete(name);
            } catch (Exception error) {
                // As above.
            }
        }
    }

    /** Return what Python reads: see `_read_report` in headrace.driver.output.jvm_task. */
    byte[] report(int partition, String failure, boolean withRows) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.writeInt(partition);
        ResultTaskFormat.writeText(out, hasFile && failure == null ? name : "");
        ResultTaskFormat.writeText(out, failure == null ? "" : failure);
        out.writeInt(rows.size());
        for (int i = 0; i < rows.size(); i++) {
            out.writeLong(((Long) rows.get(i)).longValue());
            out.writeLong(((Long) sizes.get(i)).longValue());
        }
        int count = withRows && failure == null ? messages.size() : 0;
        out.writeInt(count);
        for (int i = 0; i < count; i++) {
            byte[] message = (byte[]) messages.get(i);
            out.writeInt(message.length);
            out.write(message);
        }
        return bytes.toByteArray();
    }
}

/** Number of rows and sizes of an IPC message with a record batch. */
class BatchSize {
    final long rows;
    final int metadataBytes;
    final long bodyBytes;
    final boolean isCompressed;
    /** Bytes of the buffers, as `pyarrow.RecordBatch.nbytes`; at least 1 for each value. */
    final long bytes;

    private int nodes;
    private int buffers;
    private long values;
    private long used;

    BatchSize(byte[] message, Schema schema) {
        ByteBuffer buffer = ByteBuffer.wrap(message).order(ByteOrder.LITTLE_ENDIAN);
        int start = buffer.getInt(0) == -1 ? 8 : 4;
        metadataBytes = start + buffer.getInt(start - 4);
        buffer.position(start);
        Message header = Message.getRootAsMessage(buffer);
        bodyBytes = header.bodyLength();
        RecordBatch batch = (RecordBatch) header.header(new RecordBatch());
        rows = batch.length();
        isCompressed = batch.compression() != null;
        List fields = schema.getFields();
        for (int i = 0; i < fields.size(); i++) {
            measure((Field) fields.get(i), batch, false);
        }
        bytes = Math.max(used, Math.max(values, rows));
    }

    /** Add the buffers and values of a field; `isEntries`: it has the pairs of a map. */
    private void measure(Field field, RecordBatch batch, boolean isEntries) {
        FieldNode node = batch.nodes(nodes++);
        // A pair is no value of its own: its key and its value are.
        values += isEntries ? 0 : node.length();
        List layouts = TypeLayout.getTypeLayout(field.getType()).getBufferLayouts();
        for (int i = 0; i < layouts.size(); i++) {
            BufferType type = ((BufferLayout) layouts.get(i)).getType();
            long length = batch.buffers(buffers++).length();
            // As pyarrow counts: n offsets for n values, and no bits for nulls where there are none.
            if (type == BufferType.OFFSET) {
                used += node.length() * 4;
            } else if (type != BufferType.VALIDITY || node.nullCount() > 0) {
                used += length;
            }
        }
        List children = field.getChildren();
        for (int i = 0; i < children.size(); i++) {
            measure((Field) children.get(i), batch, field.getType() instanceof ArrowType.Map);
        }
    }
}

/** Bytes around the messages of a file, and texts in reports. */
class ResultTaskFormat {
    /** The magic number, filled up to 8 bytes. */
    static final byte[] HEAD = {'A', 'R', 'R', 'O', 'W', '1', 0, 0};

    /** Return the message with the batch of a stream that has a schema, one batch, and an end. */
    static byte[] batchOf(byte[] stream) {
        ByteBuffer buffer = ByteBuffer.wrap(stream).order(ByteOrder.LITTLE_ENDIAN);
        return Arrays.copyOfRange(stream, 8 + buffer.getInt(4), stream.length - 8);
    }

    /** Return the rows of a report, or the largest number if it is one of a failure. */
    static long countRows(byte[] report) {
        ByteBuffer buffer = ByteBuffer.wrap(report);
        buffer.position(4);
        skipText(buffer);
        if (skipText(buffer) > 0) {
            return Integer.MAX_VALUE;
        }
        long rows = 0L;
        for (int left = buffer.getInt(); left > 0; left--) {
            rows += buffer.getLong();
            buffer.getLong();
        }
        return rows;
    }

    private static int skipText(ByteBuffer buffer) {
        int length = buffer.getInt();
        buffer.position(buffer.position() + length);
        return length;
    }

    /** Return what follows the last batch: the end of the stream, the footer, and its length. */
    static byte[] tail(byte[] footer) {
        ByteBuffer tail = ByteBuffer.allocate(8 + footer.length + 10);
        tail.order(ByteOrder.LITTLE_ENDIAN);
        tail.putInt(-1).putInt(0).put(footer).putInt(footer.length).put(HEAD, 0, 6);
        return tail.array();
    }

    static void writeText(DataOutputStream out, String text) throws IOException {
        byte[] bytes = text.getBytes("UTF-8");
        out.writeInt(bytes.length);
        out.write(bytes);
    }
}
