package changelog

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// verify compares a topic with what is wanted: differences that lose state or give wrong results are faults, the rest are notes.
func (e *ensurer) verify(w wanted, partitions int32, config map[string]string) (notes []string, faults []error) {
	fault := func(remedy, format string, args ...any) {
		faults = append(faults, &TopicError{w.Name, fmt.Sprintf(format, args...), remedy})
	}
	judged := map[string]bool{cleanupPolicy: true, timestampType: true, retentionMS: true, retentionBytes: true}

	if partitions != w.Partitions {
		fault(e.partitionRemedy(w, partitions), "it has %d partitions, %s needs %d", partitions, w.owner(), w.Partitions)
	}
	if got, ok := config[timestampType]; ok && got != createTime {
		fault(e.alterCommand(w, timestampType), "%s is %s: records would get the broker's time instead of their own", timestampType, got)
	}
	got := config[cleanupPolicy]
	compacts, deletes := policies(got)
	wantCompacts, wantDeletes := policies(w.config[cleanupPolicy])
	switch {
	case deletes && !wantDeletes:
		fault(e.alterCommand(w, cleanupPolicy)+" (rows that were deleted before are lost; reset the application to build them again)",
			"%s is %s: rows of %s that have not changed for a while would be deleted, it must be %s", cleanupPolicy, got, w.owner(), w.config[cleanupPolicy])
	case compacts && !wantCompacts:
		fault(e.alterCommand(w, cleanupPolicy), "%s is %s: records that %s needs would be compacted away, it must be %s", cleanupPolicy, got, w.owner(), w.config[cleanupPolicy])
	case compacts != wantCompacts || deletes != wantDeletes:
		notes = append(notes, fmt.Sprintf("%s is %q instead of %q: the topic only takes more room", cleanupPolicy, got, w.config[cleanupPolicy]))
	}
	if deletes && w.Kind.deletes() {
		if got, want := config[retentionMS], w.config[retentionMS]; shorter(got, want) {
			fault(e.alterCommand(w, retentionMS), "%s is %s: records that %s needs would be deleted, it must be at least %s", retentionMS, got, w.owner(), want)
		}
		if got := config[retentionBytes]; shorter(got, unlimited) {
			fault(e.commandFor(w.Name, retentionBytes, unlimited), "%s is %s: records that %s needs would be deleted, it must be -1", retentionBytes, got, w.owner())
		}
	}
	if w.Kind == Versioned {
		judged[compactionLag] = true
		if got, want := config[compactionLag], w.config[compactionLag]; got != "" && number(got) < number(want) {
			fault(e.alterCommand(w, compactionLag), "%s is %s: older versions that %s needs would be compacted away, it must be at least %s", compactionLag, got, w.owner(), want)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(w.config)) {
		if got, ok := config[key]; !judged[key] && ok && got != w.config[key] {
			notes = append(notes, fmt.Sprintf("%s is %s instead of %s", key, got, w.config[key]))
		}
	}
	return notes, faults
}

// shorter compares two limits of which -1 is none. What the broker does not tell is not short.
func shorter(got, want string) bool {
	if got == "" || got == unlimited {
		return false
	}
	return want == unlimited || number(got) < number(want)
}

// number reads a configuration of milliseconds or bytes; what is none counts as 0, the least.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// millis is a duration of so many milliseconds, the longest one if they do not fit.
func millis(ms int64) time.Duration {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

func (e *ensurer) partitionRemedy(w wanted, partitions int32) string {
	return fmt.Sprintf("rows are placed by the number of partitions, so it cannot be changed in place: give the source topics %d partitions again, "+
		"or give up this state: stop all instances, reset the application and run kafka-topics.sh --bootstrap-server %s --delete --topic %s "+
		"(at once if it is empty, for instance because the broker created it by itself)", partitions, e.broker, w.Name)
}

// alterCommand sets one configuration of the topic to what is wanted.
func (e *ensurer) alterCommand(w wanted, key string) string {
	return e.commandFor(w.Name, key, w.config[key])
}

func (e *ensurer) commandFor(topic, key, value string) string {
	return fmt.Sprintf("run kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config '%s=%s'", e.broker, topic, key, quoted(value))
}

// quoted puts brackets around a list, as the tools want it.
func quoted(value string) string {
	if strings.Contains(value, ",") {
		return "[" + value + "]"
	}
	return value
}

func (e *ensurer) createCommand(w wanted) string {
	var b strings.Builder
	fmt.Fprintf(&b, "kafka-topics.sh --bootstrap-server %s --create --topic %s --partitions %d", e.broker, w.Name, w.Partitions)
	if w.Replicas > 0 {
		fmt.Fprintf(&b, " --replication-factor %d", w.Replicas)
	}
	for _, key := range slices.Sorted(maps.Keys(w.config)) {
		fmt.Fprintf(&b, " --config '%s=%s'", key, w.config[key])
	}
	return b.String()
}
