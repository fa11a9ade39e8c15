package headrace;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.mapreduce.OutputCommitter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter;
import org.apache.parquet.hadoop.ParquetOutputCommitter;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol;

/**
 * Commits the files of one write so that other writes to the same directory do not disturb it.
 *
 * <p>Replaces FileOutputCommitter alone. A committer that the user has configured stays in use.
 */
public class SharedTableCommitProtocol extends SQLHadoopMapReduceCommitProtocol {
    private final String jobId;
    private final String path;
    private final boolean dynamicPartitionOverwrite;

    public SharedTableCommitProtocol(
            String jobId, String path, boolean dynamicPartitionOverwrite) {
        super(jobId, path, dynamicPartitionOverwrite);
        this.jobId = jobId;
        this.path = path;
        this.dynamicPartitionOverwrite = dynamicPartitionOverwrite;
    }

    public OutputCommitter setupCommitter(TaskAttemptContext context) {
        OutputCommitter committer = super.setupCommitter(context);
        if (!isDefault(committer, context.getConfiguration())) {
            return committer;
        }
        try {
            Path output = dynamicPartitionOverwrite ? stagingDir() : new Path(path);
            return new SharedTableCommitter(output, stagingName(".headrace_write_"), context);
        } catch (IOException error) {
            throw new RuntimeException(error);
        }
    }

    public Path stagingDir() {
        return new Path(path, stagingName(".spark-staging-"));
    }

    private String stagingName(String prefix) {
        String writer = SparkEnv.get().conf().get("spark.headrace.writer", "unknown");
        return prefix + writer + "_" + jobId;
    }

    private static boolean isDefault(OutputCommitter committer, Configuration conf) {
        if (committer.getClass() == ParquetOutputCommitter.class) {
            return "NONE".equalsIgnoreCase(conf.get("parquet.summary.metadata.level", "NONE"));
        }
        return committer.getClass() == FileOutputCommitter.class
            && ((FileOutputCommitter) committer).getOutputPath() != null;
    }
}

/**
 * A FileOutputCommitter whose staging directory belongs to one job.
 *
 * <p>FileOutputCommitter stages in `_temporary`, which the commit or abort of any job deletes. Its
 * commit renames directories, which nests them if two jobs create the same partition.
 */
class SharedTableCommitter extends FileOutputCommitter {
    private final Path staging;
    private final Path pending;
    private final Path marker;
    private final Path workPath;

    SharedTableCommitter(Path output, String stagingName, TaskAttemptContext context)
            throws IOException {
        super(output, withAlgorithm1(context));
        staging = new Path(getOutputPath(), stagingName);
        pending = new Path(staging, PENDING_DIR_NAME);
        // Tasks create missing directories, so that only a file shows whether the directory is new.
        marker = new Path(pending, "_started");
        workPath = getTaskAttemptPath(context);
    }

    private static TaskAttemptContext withAlgorithm1(TaskAttemptContext context) {
        // Algorithm 2 publishes the files of a task before the job is committed.
        context.getConfiguration().setInt(FILEOUTPUTCOMMITTER_ALGORITHM_VERSION, 1);
        return context;
    }

    public Path getWorkPath() {
        return workPath;
    }

    public Path getJobAttemptPath(JobContext context) {
        return staging;
    }

    protected Path getJobAttemptPath(int appAttemptId) {
        return staging;
    }

    public Path getTaskAttemptPath(TaskAttemptContext context) {
        return new Path(pending, String.valueOf(context.getTaskAttemptID()));
    }

    public void setupJob(JobContext context) throws IOException {
        fileSystem(context).create(marker, true).close();
    }

    public void setupTask(TaskAttemptContext context) throws IOException {
        if (!fileSystem(context).exists(marker)) {
            // A task that starts late would create the directory again.
            throw new IOException(
                "The staging directory " + staging + " does not exist. The write was aborted, or"
                    + " another program has removed the directory.");
        }
    }

    protected void commitJobInternal(JobContext context) throws IOException {
        FileSystem files = fileSystem(context);
        if (!files.exists(marker)) {
            throw new IOException(
                "Another program has removed the staging directory " + staging
                    + " during the write. No row was written.");
        }
        List moved = new ArrayList();
        try {
            FileStatus[] tasks = files.listStatus(staging);
            for (int i = 0; i < tasks.length; i++) {
                if (!tasks[i].getPath().getName().equals(PENDING_DIR_NAME)) {
                    moveFiles(files, tasks[i].getPath(), getOutputPath(), moved);
                }
            }
            if (context.getConfiguration().getBoolean(SUCCESSFUL_JOB_OUTPUT_DIR_MARKER, true)) {
                files.create(new Path(getOutputPath(), SUCCEEDED_FILE_NAME), true).close();
            }
        } catch (IOException error) {
            for (int i = 0; i < moved.size(); i++) {
                files.delete((Path) moved.get(i), false);
            }
            throw error;
        }
        try {
            cleanupJob(context);
        } catch (IOException error) {
            // The rows are published. Readers skip the directory.
        }
    }

    public void abortJob(JobContext context, JobStatus.State state) throws IOException {
        cleanupJob(context);
    }

    public void cleanupJob(JobContext context) throws IOException {
        fileSystem(context).delete(staging, true);
    }

    /** Move the files below a directory. Their names contain the id of the job. */
    private static void moveFiles(FileSystem files, Path source, Path target, List moved)
            throws IOException {
        files.mkdirs(target);
        FileStatus[] entries = files.listStatus(source);
        for (int i = 0; i < entries.length; i++) {
            Path entry = entries[i].getPath();
            Path destination = new Path(target, entry.getName());
            if (entries[i].isDirectory()) {
                moveFiles(files, entry, destination, moved);
            } else {
                // A failed rename may have moved the file nevertheless.
                moved.add(destination);
                if (!files.rename(entry, destination)) {
                    throw new IOException("Could not rename " + entry + " to " + destination);
                }
            }
        }
    }

    private FileSystem fileSystem(JobContext context) throws IOException {
        return staging.getFileSystem(context.getConfiguration());
    }
}
