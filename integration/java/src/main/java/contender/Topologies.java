package contender;

import java.nio.ByteBuffer;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;

/** The scenarios of the contract. */
final class Topologies {
    private static final Serde<String> KEY = Serdes.String();
    private static final Serde<byte[]> VALUE = Serdes.ByteArray();
    private static final Serde<Long> COUNT = Serdes.Long();

    static Topology build(String scenario, String[] in, String out) {
        StreamsBuilder b = new StreamsBuilder();
        KStream<String, byte[]> input = b.stream(in[0], Consumed.with(KEY, VALUE));
        switch (scenario) {
            case "count", "count-cached" ->
                grouped(input).count(Materialized.as("counts")).toStream().to(out, Produced.with(KEY, COUNT));
            case "window" -> {
                Duration size = Duration.ofMinutes(1);
                grouped(input)
                    .windowedBy(TimeWindows.ofSizeAndGrace(size, Duration.ofSeconds(10)))
                    .count(Materialized.as("counts"))
                    .toStream()
                    .to(out, Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, size.toMillis()), COUNT));
            }
            case "join" -> {
                KTable<String, byte[]> table = b.table(in[1], Consumed.with(KEY, VALUE), Materialized.as("table"));
                input.join(table, Topologies::ids, Joined.with(KEY, VALUE, VALUE)).to(out, Produced.with(KEY, VALUE));
            }
            case "ssjoin" -> {
                KStream<String, byte[]> right = b.stream(in[1], Consumed.with(KEY, VALUE));
                JoinWindows within = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(30));
                input.join(right, Topologies::ids, within, StreamJoined.with(KEY, VALUE, VALUE).withStoreName("join").withName("join"))
                    .to(out, Produced.with(KEY, VALUE));
            }
            default -> throw new IllegalArgumentException("unknown scenario " + scenario);
        }
        return b.build();
    }

    private static KGroupedStream<String, byte[]> grouped(KStream<String, byte[]> input) {
        return input.groupByKey(Grouped.with(KEY, VALUE));
    }

    /** A joined value is the first 8 bytes (the record's number) of both sides. */
    private static byte[] ids(byte[] left, byte[] right) {
        return ByteBuffer.allocate(16).put(left, 0, 8).put(right, 0, 8).array();
    }

    private Topologies() {}
}
