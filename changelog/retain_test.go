package changelog

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (k *kit) setting(topic, key string) string {
	k.t.Helper()
	configs, err := k.adm.DescribeTopicConfigs(k.t.Context(), topic)
	if err != nil {
		k.t.Fatal(err)
	}
	for _, c := range configs[0].Configs {
		if c.Key == key {
			return c.MaybeValue()
		}
	}
	return ""
}

func TestProtect(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	cl, err := kgo.NewClient(k.opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	k.create(logTopic, 3, map[string]string{cleanupPolicy: "compact,delete", retentionMS: "1000"})
	k.create("app-prices-changelog", 1, map[string]string{compactionLag: "1000"})
	at := time.Date(2009, 1, 2, 3, 4, 5, 0, time.UTC)
	for range 2 { // again is as well
		if err := Protect(t.Context(), cl, Old{Topic: logTopic, Store: "counts", Kind: Windowed, At: at}); err != nil {
			t.Error(err)
		}
		if err := Protect(t.Context(), cl, Old{Topic: "app-prices-changelog", Store: "prices", Kind: Versioned, At: at}); err != nil {
			t.Error(err)
		}
	}
	if got := k.setting(logTopic, retentionMS); got != "-1" {
		t.Errorf("retention.ms is %s", got)
	}
	if got := k.setting("app-prices-changelog", compactionLag); got != "9223372036854775807" {
		t.Errorf("min.compaction.lag.ms is %s", got)
	}

	k.cluster.ControlKey(int16(kmsg.IncrementalAlterConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		k.cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
		r := kmsg.NewIncrementalAlterConfigsResponseResource()
		r.ErrorCode, r.ErrorMessage = 44, kmsg.StringPtr("not here") // POLICY_VIOLATION
		resp.Resources = append(resp.Resources, r)
		return resp, nil, true
	})
	err = Protect(t.Context(), cl, Old{Topic: logTopic, Store: "counts", Kind: Windowed, At: at})
	var e *TopicError
	if !errors.As(err, &e) || e.Topic != logTopic {
		t.Fatal(err)
	}
	for _, part := range []string{`"counts"`, "2009-01-02T03:04:05Z", "not here", "ALTER_CONFIGS", "--entity-name " + logTopic + " --add-config 'retention.ms=-1'"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
	if err := Protect(t.Context(), cl, Old{Topic: "missing"}); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Error(err)
	}
}

// Deleted is what came before an offset, and that on changelogs only where Expire says so.
func TestExpire(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	k.create(logTopic, 1, map[string]string{cleanupPolicy: "compact,delete"})
	k.produce(k.producer(""), row("a", "1"), row("b", "1"), row("c", "1"))
	if err := Expire(t.Context(), k.adm, map[string]map[int32]int64{logTopic: {0: 2}}); err != nil {
		t.Error(err)
	}
	if start, end := k.ends(logTopic, 0); start != 2 || end != 3 {
		t.Errorf("the log is %d to %d", start, end)
	}
}
