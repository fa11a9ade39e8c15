package headrace;

import java.io.IOException;
import java.lang.reflect.Field;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.io.nativeio.NativeIO;

/**
 * Hadoop's local files, whose permissions Java sets.
 *
 * <p>Without its native library, Hadoop starts a `chmod` for each new file and directory, which
 * takes some milliseconds each: nine times for an INSERT of one row into a table of Spark.
 */
public class LocalFiles extends RawLocalFileSystem {
    private static final URI ROOT = URI.create("file:///");

    /**
     * Let all later users of local files in this JVM have this file system.
     *
     * @return whether it was installed: not if Hadoop has its native library, if the configuration
     *     names another class for local files or forbids a shared object, or after an earlier call
     */
    public boolean install(Configuration conf) throws Exception {
        FileSystem current = FileSystem.get(ROOT, conf);
        if (NativeIO.isAvailable() || !(current instanceof LocalFileSystem)
                || ((LocalFileSystem) current).getRaw().getClass() != RawLocalFileSystem.class
                || FileSystem.get(ROOT, conf) != current) {
            return false;
        }
        initialize(ROOT, conf);
        // Hadoop has one object for all local files, which adds checksums to those of this class.
        Field files = FilterFileSystem.class.getDeclaredField("fs");
        files.setAccessible(true);
        files.set(current, this);
        return true;
    }

    public void setPermission(Path path, FsPermission permission) throws IOException {
        java.nio.file.Path file = pathToFile(path).toPath();
        int mode = permission.toShort() & 01777;
        if (Files.isDirectory(file, new LinkOption[0])) {
            // As `chmod` does: new files of a directory with this bit belong to its group.
            Integer current = (Integer) Files.getAttribute(file, "unix:mode", new LinkOption[0]);
            mode |= current.intValue() & 06000;
        }
        Files.setAttribute(file, "unix:mode", Integer.valueOf(mode), new LinkOption[0]);
    }
}
