package headrace;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.CopyOption;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.HashSet;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.io.IOUtils;
import org.apache.spark.sql.catalyst.catalog.CatalogTablePartition;
import org.apache.spark.sql.execution.datasources.PartitioningUtils;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager$;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.collection.Seq;

/** File operations of a two-phase write, which would take a call from Python for each file. */
public class StagedFiles {
    /** Return the files below a directory that readers see, one relative path on each line. */
    public String list(Configuration conf, String root) throws IOException {
        Path path = new Path(root);
        FileSystem files = path.getFileSystem(conf);
        StringBuilder found = new StringBuilder();
        if (files.exists(path)) {
            listBelow(files, path, "", found);
        }
        return found.toString();
    }

    /** Write a text to a file in one step: a reader sees the old file or the new one. */
    public void write(Configuration conf, String location, String text) throws IOException {
        byte[] content = text.getBytes(StandardCharsets.UTF_8);
        Path path = new Path(location);
        FileSystem files = path.getFileSystem(conf);
        if (files instanceof LocalFileSystem) {
            files.mkdirs(path.getParent());
            writeLocal(conf, ((LocalFileSystem) files).pathToFile(path).toPath(), content);
            return;
        }
        CheckpointFileManager manager = CheckpointFileManager$.MODULE$.create(
            path.getParent(), conf);
        manager.mkdirs(path.getParent());
        FSDataOutputStream stream = manager.createAtomic(path, true);
        boolean isWritten = false;
        try {
            stream.write(content);
            isWritten = true;
        } finally {
            if (!isWritten) {
                ((CheckpointFileManager.CancellableFSDataOutputStream) stream).cancel();
            }
        }
        stream.close();
    }

    /** Spark's manager starts a process for each local file that it creates. */
    private static void writeLocal(Configuration conf, java.nio.file.Path file, byte[] content)
            throws IOException {
        // The name of a new file is random: a stale driver may write the same text meanwhile.
        java.nio.file.Path staged = Files.createTempFile(
            file.getParent(), "." + file.getFileName(), ".tmp", new FileAttribute[0]);
        try {
            Files.write(staged, content, new OpenOption[0]);
            FsPermission mode =
                FsPermission.getFileDefault().applyUMask(FsPermission.getUMask(conf));
            Files.setPosixFilePermissions(
                staged, PosixFilePermissions.fromString(mode.toString()));
            // A checksum of an earlier file would make the new one unreadable.
            Files.deleteIfExists(file.resolveSibling("." + file.getFileName() + ".crc"));
            Files.move(staged, file, new CopyOption[] {StandardCopyOption.ATOMIC_MOVE});
        } finally {
            Files.deleteIfExists(staged);
        }
    }

    /**
     * Move files. Each line has the source and the target, with a tab between them.
     *
     * <p>A move that an earlier call has completed is skipped.
     */
    public void move(Configuration conf, String moves) throws IOException {
        String[] lines = moves.split("\n");
        Set folders = new HashSet();
        for (int i = 0; i < lines.length; i++) {
            int tab = lines[i].indexOf('\t');
            Path source = new Path(lines[i].substring(0, tab));
            Path target = new Path(lines[i].substring(tab + 1));
            FileSystem files = target.getFileSystem(conf);
            if (folders.add(target.getParent())) {
                files.mkdirs(target.getParent());
            }
            if (!isMoved(files, source, target) && !files.exists(target)) {
                throw new FileNotFoundException("Could not move " + source + " to " + target);
            }
        }
    }

    /** Move a file that may be missing. */
    public void moveIfExists(Configuration conf, String source, String target)
            throws IOException {
        Path path = new Path(source);
        FileSystem files = path.getFileSystem(conf);
        if (files.exists(path)) {
            files.rename(path, new Path(target));
        }
    }

    /** Return the files that a pattern matches; none if a matched directory contains another. */
    public String findSources(Configuration conf, String pattern) throws IOException {
        Path path = new Path(pattern);
        FileSystem files = path.getFileSystem(conf);
        FileStatus[] matches = files.globStatus(path);
        StringBuilder found = new StringBuilder();
        for (int i = 0; matches != null && i < matches.length; i++) {
            FileStatus[] entries = matches[i].isDirectory()
                ? files.listStatus(matches[i].getPath()) : new FileStatus[] {matches[i]};
            for (int k = 0; k < entries.length; k++) {
                if (entries[k].isDirectory()) {
                    return "";
                }
                if (!isHidden(entries[k].getPath().getName())) {
                    found.append(entries[k].getPath()).append('\n');
                }
            }
        }
        return found.toString();
    }

    /** Copy files, one on each line, to a directory. Their names begin with a number there. */
    public void copy(Configuration conf, String sources, String target) throws IOException {
        String[] lines = sources.split("\n");
        for (int i = 0; i < lines.length; i++) {
            Path source = new Path(lines[i]);
            Path copy = new Path(target, i + "-" + source.getName());
            FileUtil.copy(source.getFileSystem(conf), source, copy.getFileSystem(conf), copy,
                false, true, conf);
        }
    }

    /** Remove files, one on each line, and the directories below a root that become empty. */
    public void remove(Configuration conf, String paths, String root) throws IOException {
        String[] lines = paths.split("\n");
        Set folders = new HashSet();
        for (int i = 0; i < lines.length; i++) {
            Path path = new Path(lines[i]);
            path.getFileSystem(conf).delete(path, false);
            folders.add(path.getParent());
        }
        Object[] parents = folders.toArray();
        for (int i = 0; root != null && i < parents.length; i++) {
            Path end = new Path(root);
            removeEmpty(end.getFileSystem(conf), (Path) parents[i], end);
        }
    }

    /** Return the text of a file, or null if it does not exist. */
    public String read(Configuration conf, String location) throws IOException {
        Path path = new Path(location);
        FileSystem files = path.getFileSystem(conf);
        if (!files.exists(path)) {
            return null;
        }
        FSDataInputStream stream = files.open(path);
        try {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            IOUtils.copyBytes(stream, bytes, 65536);
            return new String(bytes.toByteArray(), StandardCharsets.UTF_8);
        } finally {
            stream.close();
        }
    }

    /** Return path and location of each partition, one on each line, with a tab between them. */
    public String partitions(Seq partitions, StructType schema) {
        StringBuilder found = new StringBuilder();
        Iterator all = partitions.iterator();
        while (all.hasNext()) {
            CatalogTablePartition partition = (CatalogTablePartition) all.next();
            found.append(PartitioningUtils.getPathFragment(partition.spec(), schema)).append('\t')
                .append(new Path(partition.location())).append('\n');
        }
        return found.toString();
    }

    /** Return whether Spark's readers skip a name. */
    private static boolean isHidden(String name) {
        return name.startsWith(".") || (name.startsWith("_") && name.indexOf('=') < 0);
    }

    private static boolean isMoved(FileSystem files, Path source, Path target) throws IOException {
        try {
            return files.rename(source, target);
        } catch (FileNotFoundException error) {
            return false;
        }
    }

    private static void removeEmpty(FileSystem files, Path folder, Path end) throws IOException {
        Path path = folder;
        while (path.depth() > end.depth() && files.exists(path)
                && files.listStatus(path).length == 0 && files.delete(path, false)) {
            path = path.getParent();
        }
    }

    private static void listBelow(FileSystem files, Path path, String prefix, StringBuilder found)
            throws IOException {
        FileStatus[] entries = files.listStatus(path);
        for (int i = 0; i < entries.length; i++) {
            String name = entries[i].getPath().getName();
            if (isHidden(name)) {
                continue;
            }
            if (entries[i].isDirectory()) {
                listBelow(files, entries[i].getPath(), prefix + name + "/", found);
            } else {
                found.append(prefix).append(name).append('\n');
            }
        }
    }
}
