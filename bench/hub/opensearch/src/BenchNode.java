// An OpenSearch node of jars from Maven Central: what its distribution's start script starts,
// without the agent that confines plugins: the HTTP transport is the only one.
//
//   java -cp 'lib/*' BenchNode.java DIR PORT

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.opensearch.Version;
import org.opensearch.common.logging.LogConfigurator;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.plugins.PluginInfo;

public final class BenchNode extends Node {
    private BenchNode(Environment environment) {
        super(environment, List.of(netty()), false);
    }

    private static PluginInfo netty() {
        return new PluginInfo("transport-netty4", "HTTP", "1", Version.CURRENT, "21",
            "org.opensearch.transport.Netty4ModulePlugin", List.of(), false);
    }

    public static void main(String[] arguments) throws Exception {
        Path home = Path.of(arguments[0]).toAbsolutePath();
        Settings settings = Settings.builder()
            .put("path.home", home)
            .put("path.data", home.resolve("data"))
            .put("path.logs", home.resolve("logs"))
            .put("node.name", "bench")
            .put("cluster.name", "bench")
            .put("discovery.type", "single-node")
            .put("transport.type", "netty4")
            .put("http.type", "netty4")
            .put("network.host", "127.0.0.1")
            .put("http.port", arguments[1])
            .put("transport.port", "0")
            // The disk is shared: how full it is says nothing about this index.
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .build();
        LogConfigurator.registerErrorListener();
        Environment environment = InternalSettingsPreparer.prepareEnvironment(
            settings, Map.of(), null, () -> "bench");
        BenchNode node = new BenchNode(environment);
        CountDownLatch end = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                node.close();
            } catch (Exception error) {
                error.printStackTrace();
            }
            end.countDown();
        }));
        node.start();
        System.out.println("started");
        end.await();
    }
}
