package contender;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.StateRestoreListener;

/** Adds up the restores of all stores; Kafka Streams does not tell bytes. */
final class RestoreReport implements StateRestoreListener {
    private long first;
    private long last;
    private long records;

    @Override
    public synchronized void onRestoreStart(TopicPartition partition, String store, long from, long to) {
        if (first == 0) {
            first = System.nanoTime();
        }
    }

    @Override
    public void onBatchRestored(TopicPartition partition, String store, long end, long n) {}

    @Override
    public synchronized void onRestoreEnd(TopicPartition partition, String store, long total) {
        last = System.nanoTime();
        records += total;
    }

    synchronized void print() {
        if (records > 0) {
            System.out.printf("{\"event\":\"restored\",\"records\":%d,\"bytes\":0,\"ms\":%d}%n", records, (last - first) / 1_000_000);
        }
        first = 0;
        records = 0;
    }
}
