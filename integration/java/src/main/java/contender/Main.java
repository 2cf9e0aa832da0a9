package contender;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/** The Kafka Streams contender: parses the flags of the contract, runs one topology, reports events as lines of JSON. */
public final class Main {
    public static void main(String[] args) throws Exception {
        Map<String, String> flags = parse(args);
        String scenario = flags.get("scenario");

        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, flags.get("app-id"));
        config.put(StreamsConfig.CLIENT_ID_CONFIG, "s"); // short, so that thread names survive the kernel's 15 characters
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, flags.get("brokers"));
        config.put(StreamsConfig.STATE_DIR_CONFIG, flags.get("state-dir"));
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, flags.get("threads"));
        // count-cached keeps the default of 10 MB; all other scenarios emit and log every update.
        if (!scenario.equals("count-cached")) {
            config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        }
        if (flags.get("guarantee").equals("exactly_once")) {
            config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
            config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        } // else at_least_once and 30 s, the defaults

        KafkaStreams streams = new KafkaStreams(Topologies.build(scenario, flags.get("in").split(","), flags.get("out")), config);
        RestoreReport restore = new RestoreReport();
        streams.setGlobalStateRestoreListener(restore);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                restore.print();
                System.out.println("{\"event\":\"running\"}");
            }
        });
        streams.setUncaughtExceptionHandler(e -> {
            e.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });

        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofMinutes(1));
            closed.countDown();
        }));
        streams.start();
        closed.await();
    }

    private static Map<String, String> parse(String[] args) {
        Map<String, String> flags = new HashMap<>();
        for (int i = 0; i + 1 < args.length; i += 2) {
            flags.put(args[i].substring(2), args[i + 1]);
        }
        return flags;
    }

    private Main() {}
}
