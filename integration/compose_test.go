package integration_test

import (
	"encoding/xml"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/kolkstreams/kolk/integration/kafka"
)

// compose is what the test reads of docker-compose.yml.
type compose struct {
	Services map[string]struct {
		Image       string
		Ports       []string
		Environment map[string]string
		Volumes     []string
	}
	Volumes map[string]any
}

func readCompose(t *testing.T) (c compose) {
	t.Helper()
	text, err := os.ReadFile("../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// listeners takes NAME://host:port,... apart into port by name.
func listeners(t *testing.T, s string) map[string]string {
	t.Helper()
	ports := map[string]string{}
	for l := range strings.SplitSeq(s, ",") {
		name, address, ok := strings.Cut(l, "://")
		if !ok {
			t.Fatalf("listener %q", l)
		}
		ports[name] = address[strings.LastIndexByte(address, ':')+1:]
	}
	return ports
}

// There is no Docker where tests run. What the file says must at least agree with itself.
func TestComposeIsConsistent(t *testing.T) {
	c := readCompose(t)
	if names := slices.Collect(maps.Keys(c.Services)); len(names) != 1 || names[0] != "kafka" {
		t.Fatalf("services %v", names)
	}
	s := c.Services["kafka"]
	env := s.Environment
	if roles := env["KAFKA_PROCESS_ROLES"]; roles != "broker,controller" {
		t.Errorf("roles %q", roles)
	}
	open, advertised := listeners(t, env["KAFKA_LISTENERS"]), listeners(t, env["KAFKA_ADVERTISED_LISTENERS"])
	controller := env["KAFKA_CONTROLLER_LISTENER_NAMES"]
	if want := env["KAFKA_NODE_ID"] + "@kafka:" + open[controller]; env["KAFKA_CONTROLLER_QUORUM_VOTERS"] != want {
		t.Errorf("voters %q, want %q, the controller's own listener", env["KAFKA_CONTROLLER_QUORUM_VOTERS"], want)
	}
	if _, told := advertised[controller]; told {
		t.Error("the controller's listener is advertised, which a broker refuses")
	}
	for name, port := range open {
		if !strings.Contains(","+env["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"], ","+name+":PLAINTEXT") {
			t.Errorf("listener %s has no security protocol", name)
		}
		if name != controller && advertised[name] != port {
			t.Errorf("listener %s is advertised on port %q and open on %q", name, advertised[name], port)
		}
	}
	if _, known := open[env["KAFKA_INTER_BROKER_LISTENER_NAME"]]; !known {
		t.Errorf("inter-broker listener %q does not exist", env["KAFKA_INTER_BROKER_LISTENER_NAME"])
	}
	if !strings.Contains(env["KAFKA_ADVERTISED_LISTENERS"], "HOST://localhost:9092") || !slices.Contains(s.Ports, "127.0.0.1:9092:"+open["HOST"]) {
		t.Errorf("clients are sent to %q, published is %q: want localhost:9092 for both", env["KAFKA_ADVERTISED_LISTENERS"], s.Ports)
	}
	for volume := range c.Volumes {
		if !slices.Contains(s.Volumes, volume+":"+env["KAFKA_LOG_DIRS"]) {
			t.Errorf("volumes %v do not keep the data in %s", s.Volumes, env["KAFKA_LOG_DIRS"])
		}
	}
	for name, value := range env {
		if (strings.HasSuffix(name, "REPLICATION_FACTOR") || strings.HasSuffix(name, "MIN_ISR")) && value != "1" {
			t.Errorf("%s is %s on one node", name, value)
		}
	}
}

// Docker users, tests and the benchmark's peer have the same Kafka.
func TestOneKafkaVersion(t *testing.T) {
	_, version, _ := strings.Cut(readCompose(t).Services["kafka"].Image, ":")
	for _, name := range []string{"kafka/pom.xml", "java/pom.xml"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var pom struct {
			Version string `xml:"properties>kafka.version"`
		}
		if err := xml.Unmarshal(text, &pom); err != nil {
			t.Fatal(err)
		}
		if pom.Version != version || version == "" {
			t.Errorf("%s has Kafka %q, docker-compose.yml has %q", name, pom.Version, version)
		}
	}
}

// A real broker starts with what the file configures, but for addresses and folders.
func TestComposeConfiguresABroker(t *testing.T) {
	props := map[string]string{}
	for name, value := range readCompose(t).Services["kafka"].Environment {
		name = strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "KAFKA_")), "_", ".")
		props[name] = value
	}
	for _, own := range []string{"listeners", "advertised.listeners", "controller.quorum.voters", "log.dirs", "listener.security.protocol.map", "inter.broker.listener.name"} {
		delete(props, own)
	}
	c, err := kafka.Launch(t.Context(), kafka.Config{Heap: "512m", QuickStart: true, Properties: props})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	c.Topic(t, c.Name(t), 1)
}
