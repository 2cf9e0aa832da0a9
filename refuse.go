package kolk

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// owned are the client options that kolk sets itself, because its guarantees hang on them, with what to use instead.
var owned = map[string]string{
	"ConsumerGroup":                       "Config.Application is the group",
	"ConsumeTopics":                       "the topology says what is read",
	"ConsumeRegex":                        "the topology says what is read",
	"ConsumePartitions":                   "the topology says what is read",
	"ConsumeExcludeTopics":                "the topology says what is read",
	"Balancers":                           "kolk assigns tasks itself",
	"GroupProtocol":                       "kolk assigns tasks itself",
	"ServerSideBalancer":                  "kolk assigns tasks itself",
	"InstanceID":                          "use Config.InstanceID",
	"SessionTimeout":                      "use Config.SessionTimeout",
	"RebalanceTimeout":                    "kolk commits within it",
	"HeartbeatInterval":                   "it follows Config.SessionTimeout",
	"OnPartitionsAssigned":                "use Config.Hooks",
	"OnPartitionsRevoked":                 "use Config.Hooks",
	"OnPartitionsLost":                    "use Config.Hooks",
	"OnPartitionsCallbackBlocked":         "use Config.Hooks",
	"BlockRebalanceOnPoll":                "kolk polls itself",
	"AdjustFetchOffsetsFn":                "offsets and state belong together",
	"DisableAutoCommit":                   "kolk commits itself",
	"GreedyAutoCommit":                    "kolk commits itself",
	"AutoCommitMarks":                     "kolk commits itself",
	"AutoCommitInterval":                  "use Config.CommitEvery",
	"AutoCommitCallback":                  "kolk commits itself",
	"TransactionalID":                     "kolk names its producers",
	"TransactionTimeout":                  "use Config.TransactionTimeout",
	"FetchIsolationLevel":                 "kolk reads committed records",
	"KeepControlRecords":                  "kolk needs them",
	"KeepRetryableFetchErrors":            "kolk handles errors of fetching",
	"ConsumeResetOffset":                  "use topology.From at the source",
	"ConsumeStartOffset":                  "use topology.From at the source",
	"RecordPartitioner":                   "use PartitionedBy of the topic",
	"RequiredAcks":                        "every write must be acknowledged by all",
	"DisableIdempotentWrite":              "writes must not be repeated",
	"MaxProduceRequestsInflightPerBroker": "it would break the order of writes",
	"RecordRetries":                       "a write that is given up loses state",
	"ProduceRequestTimeout":               "a write that is given up loses state",
	"RecordDeliveryTimeout":               "a write that is given up loses state",
	"UnknownTopicRetries":                 "a write that is given up loses state",
	"StopProducerOnDataLossDetected":      "kolk handles it",
	"ProducerOnDataLossDetected":          "kolk handles it",
	"AllowAutoTopicCreation":              "kolk creates its topics itself",
	"DefaultProduceTopic":                 "the topology says what is written",
	"DefaultProduceTopicAlways":           "the topology says what is written",
	"ManualFlushing":                      "kolk flushes at each commit",
	"ConsiderMissingTopicDeletedAfter":    "a topic that is gone must stop the application",
}

// refused names the options among opts that kolk must own. An option is a closure inside the function that made it; its name tells which.
func refused(opts []kgo.Opt) (faults []error) {
	for _, o := range opts {
		name := optionName(o)
		if why, ok := owned[name]; ok {
			faults = append(faults, fmt.Errorf("kolk: Config.Kafka has kgo.%s, which kolk must own: %s", name, why))
		}
	}
	return faults
}

// optionName is the kgo function that made an option. The options of franz-go are structs around a closure defined in that function.
func optionName(o kgo.Opt) string {
	v := reflect.ValueOf(o)
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() == reflect.Struct && v.NumField() > 0 {
		v = v.Field(0)
	}
	if v.Kind() != reflect.Func {
		return ""
	}
	f := runtime.FuncForPC(v.Pointer())
	if f == nil {
		return ""
	}
	name := strings.TrimPrefix(f.Name(), "github.com/twmb/franz-go/pkg/kgo.")
	name, _, _ = strings.Cut(name, ".")
	return name
}
