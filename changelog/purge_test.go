package changelog

import (
	"strings"
	"testing"
)

func TestPurge(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	const topic = "app-by-city-repartition"
	k.create(topic, 2, map[string]string{cleanupPolicy: deleting})
	k.create(logTopic, 1, nil)
	client := k.producer("")
	for i := range 10 {
		r := row("a", "1")
		r.Topic, r.Partition = topic, int32(i%2)
		k.produce(client, r)
	}
	k.produce(client, row("a", "1"), row("b", "1"))
	if err := Purge(t.Context(), k.adm, map[string]map[int32]int64{topic: {0: 3, 1: 0}}); err != nil {
		t.Error(err)
	}
	if start, end := k.ends(topic, 0); start != 3 || end != 5 {
		t.Errorf("partition 0 is %d to %d", start, end)
	}
	err := Purge(t.Context(), k.adm, map[string]map[int32]int64{topic: {0: 3, 1: 99}, logTopic: {0: 1}})
	if err == nil || !strings.Contains(err.Error(), topic+"/1 up to offset 99") || strings.Contains(err.Error(), topic+"/0") || !strings.Contains(err.Error(), "it is a changelog") {
		t.Error(err)
	}
	if start, _ := k.ends(topic, 1); start != 0 {
		t.Errorf("offset 0 moved the start to %d", start)
	}
	if start, _ := k.ends(logTopic, 0); start != 0 {
		t.Errorf("a changelog was purged to %d", start)
	}
	if err := Purge(t.Context(), k.adm, nil); err != nil {
		t.Error(err)
	}
}
