package headrace;

import java.io.IOException;
import java.lang.reflect.Field;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
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
 * <p>Without its native library, Hadoop starts a `chmod` for each new file and directory: nine for
 * an INSERT of one row, of some milliseconds each.
 */
public class LocalFiles extends RawLocalFileSystem {
    private static final URI ROOT = URI.create("file:///");

    /**
     * Let all later users of local files in this JVM have this file system.
     *
     * @return whether it was installed: not if Hadoop has its native library, or if the
     *     configuration names another class for local files, or after an earlier call
     */
    public boolean install(Configuration conf) throws Exception {
        FileSystem current = FileSystem.get(ROOT, conf);
        if (NativeIO.isAvailable() || !(current instanceof LocalFileSystem)
                || ((LocalFileSystem) current).getRaw().getClass() != RawLocalFileSystem.class) {
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
        if (permission.getStickyBit()) {
            super.setPermission(path, permission);
            return;
        }
        Files.setPosixFilePermissions(
            pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
    }
}
