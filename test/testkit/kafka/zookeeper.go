package kafka

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/child"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
)

// zookeeper is the one server that brokers before Kafka 3 need: with KRaft they have no transactions yet.
type zookeeper struct {
	broker *Broker // whose JVM, jars and heap it uses
	dir    string
	port   int
	child  *child.Child
}

// Older reports whether the default version is older than the release, as "3.6".
func Older(than string) bool {
	var have, want [2]int
	_, _ = fmt.Sscanf(release(""), "%d.%d", &have[0], &have[1])
	_, _ = fmt.Sscanf(than, "%d.%d", &want[0], &want[1])
	return slices.Compare(have[:], want[:]) < 0
}

// needsZooKeeper reports whether brokers of the version, as release takes it, are run with ZooKeeper.
func needsZooKeeper(version string) bool {
	major, _, _ := strings.Cut(release(version), ".")
	n, err := strconv.Atoi(major)
	return err == nil && n < 3
}

func newZooKeeper(b *Broker, dir string) (*zookeeper, error) {
	p, err := port.Free()
	return &zookeeper{broker: b, dir: dir, port: p}, err
}

// configure replaces the settings that only KRaft has. A session is as short as a broker's is there.
func (z *zookeeper) configure(m map[string]string, node int) {
	for k := range m {
		if strings.HasPrefix(k, "controller.") || strings.HasPrefix(k, "share.") || k == "process.roles" ||
			k == "node.id" || k == "broker.heartbeat.interval.ms" || k == "broker.session.timeout.ms" {
			delete(m, k)
		}
	}
	for _, k := range []string{"listeners", "listener.security.protocol.map"} {
		var kept []string
		for _, l := range strings.Split(m[k], ",") {
			if !strings.HasPrefix(l, "CONTROLLER:") {
				kept = append(kept, l)
			}
		}
		m[k] = strings.Join(kept, ",")
	}
	if m["authorizer.class.name"] != "" {
		m["authorizer.class.name"] = "kafka.security.authorizer.AclAuthorizer"
	}
	m["broker.id"] = strconv.Itoa(node)
	m["zookeeper.connect"] = port.Addr(z.port)
	m["zookeeper.session.timeout.ms"] = "3000"
}

// start starts the server and returns when it listens.
func (z *zookeeper) start(ctx context.Context) error {
	if err := os.Mkdir(z.dir, 0o755); err != nil {
		return err
	}
	log := filepath.Join(z.dir, "zookeeper.log")
	text := fmt.Sprintf("dataDir=%s\nclientPortAddress=127.0.0.1\nclientPort=%d\ntickTime=500\nmaxClientCnxns=0\n"+
		"admin.enableServer=false\n", filepath.Join(z.dir, "data"), z.port)
	file := filepath.Join(z.dir, "zookeeper.properties")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	var err error
	if z.child, err = z.broker.run(log, "org.apache.zookeeper.server.quorum.QuorumPeerMain", file); err != nil {
		return err
	}
	for {
		conn, err := net.Dial("tcp", port.Addr(z.port))
		if err == nil {
			return conn.Close()
		}
		select {
		case <-z.child.Done():
			end, _ := os.ReadFile(log)
			return fmt.Errorf("ZooKeeper ended while starting; the end of its log:\n%s", tail(end, 1500))
		case <-ctx.Done():
			return fmt.Errorf("ZooKeeper does not listen: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (z *zookeeper) kill() {
	if z.child != nil {
		z.child.Kill()
	}
}
