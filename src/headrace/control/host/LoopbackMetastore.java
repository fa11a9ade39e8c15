import java.io.File;
import java.lang.reflect.Method;
import java.nio.channels.ServerSocketChannel;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.TServerSocketKeepAlive;
import org.apache.hadoop.hive.metastore.TUGIBasedProcessor;
import org.apache.hadoop.hive.thrift.TUGIContainingTransport;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.server.ServerContext;
import org.apache.thrift.server.TServerEventHandler;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;
import org.apache.thrift.transport.TTransport;

/**
 * Hive's metastore server on the socket that is the standard input of this process. The argument is
 * a file that the server creates when it accepts connections.
 *
 * HiveMetaStore.startMetaStore of Hive 2.3 always binds to all interfaces; Hive 4 has a setting for
 * the address (HIVE-23952). This class starts the same server on a socket of 127.0.0.1 that listens
 * already. Janino, Spark's own compiler, compiles it at the start of the metastore.
 */
public class LoopbackMetastore {
    public static void main(String[] arguments) throws Throwable {
        HiveConf.setLoadMetastoreConfig(true);
        HiveConf conf = new HiveConf(HiveMetaStore.class);
        IHMSHandler handler = HiveMetaStore.newRetryingHMSHandler(
            new HiveMetaStore.HMSHandler("headrace", conf, false), conf);
        ServerSocketChannel listener = (ServerSocketChannel) System.inheritedChannel();
        TThreadPoolServer.Args options = new TThreadPoolServer.Args(
            new TServerSocketKeepAlive(new TServerSocket(listener.socket())));
        options.processor(new TUGIBasedProcessor(handler));
        options.transportFactory(new TUGIContainingTransport.Factory());
        options.protocolFactory(new TBinaryProtocol.Factory());
        options.inputProtocolFactory(new TBinaryProtocol.Factory(
            true, true, maxMessageSize(conf), maxMessageSize(conf)));
        options.minWorkerThreads(
            HiveConf.getIntVar(conf, HiveConf.ConfVars.METASTORESERVERMINTHREADS));
        options.maxWorkerThreads(
            HiveConf.getIntVar(conf, HiveConf.ConfVars.METASTORESERVERMAXTHREADS));
        TThreadPoolServer server = new TThreadPoolServer(options);
        server.setServerEventHandler(new ConnectionEnd());
        new File(arguments[0]).createNewFile();
        server.serve();
    }

    private static long maxMessageSize(HiveConf conf) {
        return HiveConf.getLongVar(conf, HiveConf.ConfVars.METASTORESERVERMAXMESSAGESIZE);
    }

    /** Frees what the thread of a connection holds of the database, as Hive's own server does. */
    static class ConnectionEnd implements TServerEventHandler {
        private final Method cleanup;

        ConnectionEnd() throws NoSuchMethodException {
            cleanup = HiveMetaStore.class.getDeclaredMethod("cleanupRawStore", new Class[0]);
            cleanup.setAccessible(true);
        }

        public void preServe() {}

        public ServerContext createContext(TProtocol input, TProtocol output) {
            return null;
        }

        public void deleteContext(ServerContext context, TProtocol input, TProtocol output) {
            try {
                cleanup.invoke(null, new Object[0]);
            } catch (Exception error) {
                throw new RuntimeException(error);
            }
        }

        public void processContext(ServerContext context, TTransport input, TTransport output) {}
    }
}
