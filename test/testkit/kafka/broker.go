package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/child"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
)

// Broker is one node of a cluster. Stop, Kill and Start are called from one goroutine at a time.
type Broker struct {
	Node int // its node id, from 1

	cluster                      *Cluster
	java, jars, heap, dir        string
	jvm                          []string
	clusterID                    string
	client, internal, controller int    // ports
	addr                         string // what clients receive
	votes                        bool   // it is a controller too
	more                         []listening

	mu    sync.Mutex
	child *child.Child
}

// listening is a listener beyond the usual three.
type listening struct {
	Listener
	addr, told string
}

// listen finds ports for more listeners.
func (b *Broker) listen(more []Listener) error {
	for _, l := range more {
		p, err := port.Free()
		if err != nil {
			return err
		}
		x := listening{Listener: l, addr: port.Addr(p), told: port.Addr(p)}
		if l.Advertise != nil {
			x.told = l.Advertise(b.Node, x.addr)
		}
		b.more = append(b.more, x)
	}
	return nil
}

// Listener is the broker's own address of a further listener.
func (b *Broker) Listener(name string) string {
	i := slices.IndexFunc(b.more, func(l listening) bool { return l.Name == name })
	return b.more[i].addr
}

// ways are the settings of all the listeners.
func (b *Broker) ways(opts *Options) map[string]string {
	protocol := cmp.Or(opts.Protocol, "PLAINTEXT")
	m := map[string]string{"inter.broker.listener.name": "INTERNAL", "controller.listener.names": "CONTROLLER"}
	listeners := []string{"CLIENT://" + port.Addr(b.client), "INTERNAL://" + port.Addr(b.internal)}
	// not controllers: they find each other by the voters
	told := []string{"CLIENT://" + b.addr, "INTERNAL://" + port.Addr(b.internal)}
	protocols := []string{"CLIENT:" + protocol, "INTERNAL:PLAINTEXT", "CONTROLLER:PLAINTEXT"}
	if b.votes {
		listeners = append(listeners, "CONTROLLER://"+port.Addr(b.controller))
	}
	for _, l := range b.more {
		listeners, told = append(listeners, l.Name+"://"+l.addr), append(told, l.Name+"://"+l.told)
		protocols = append(protocols, l.Name+":"+l.Protocol)
		for k, v := range l.Settings {
			m["listener.name."+strings.ToLower(l.Name)+"."+k] = v
		}
	}
	m["listeners"], m["advertised.listeners"] = strings.Join(listeners, ","), strings.Join(told, ",")
	m["listener.security.protocol.map"] = strings.Join(protocols, ",")
	return m
}

// configure writes server.properties. Short sessions and small pools: a failure shall be noticed in a second or two,
// and three brokers shall fit beside everything else on two cores.
func (b *Broker) configure(voters string, opts *Options) error {
	brokers, roles := max(opts.Brokers, 1), "broker"
	if b.votes {
		roles = "broker,controller"
	}
	copies, isr := strconv.Itoa(min(brokers, 3)), "1"
	if brokers >= 3 {
		isr = "2"
	}
	m := map[string]string{
		"process.roles": roles, "node.id": strconv.Itoa(b.Node), "controller.quorum.voters": voters,
		"log.dirs": filepath.Join(b.dir, "data"), "auto.create.topics.enable": "false",
		"log.retention.ms": "-1", // a record's timestamp may be of any age
		"num.partitions":   "3", "default.replication.factor": copies, "min.insync.replicas": isr,
		"offsets.topic.replication.factor": copies, "offsets.topic.num.partitions": "4",
		"transaction.state.log.replication.factor": copies, "transaction.state.log.min.isr": isr,
		"transaction.state.log.num.partitions": "4", "share.coordinator.state.topic.replication.factor": copies,
		"share.coordinator.state.topic.min.isr": isr, "group.initial.rebalance.delay.ms": "0",
		"num.network.threads": "2", "num.io.threads": "3", "broker.heartbeat.interval.ms": "500",
		"broker.session.timeout.ms": "3000", "replica.lag.time.max.ms": "5000",
		"controller.quorum.election.timeout.ms": "1000", "controller.quorum.fetch.timeout.ms": "2000",
		"log.segment.bytes": "67108864", "log.cleaner.dedupe.buffer.size": "2097152", "log.cleaner.threads": "1",
	}
	maps.Copy(m, b.ways(opts))
	maps.Copy(m, opts.Settings)
	if z := b.cluster.zookeeper; z != nil {
		z.configure(m, b.Node)
	}
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&text, "%s=%s\n", k, m[k])
	}
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.dir, "log4j.properties"), []byte(log4j), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, "server.properties"), []byte(text.String()), 0o644)
}

// log4j is for Kafka 3, which brings a logger of its own; without a configuration it writes nothing.
const log4j = `log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss.SSS} [%t] %p %c - %m%n
`

// command prepares a main class. The serial collector and the first compiler tier start fastest; a broker in a test
// does not live long enough to earn the optimizing one back.
func (b *Broker) command(class string, args ...string) *exec.Cmd {
	cmd := exec.Command(b.java, slices.Concat([]string{
		"-Xms64m", "-Xmx" + b.heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-Djava.awt.headless=true", "-Dlog4j.configuration=file:" + filepath.Join(b.dir, "log4j.properties"),
		"-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
	}, b.jvm, []string{"-cp", filepath.Join(b.jars, "*"), class}, args)...)
	cmd.Dir = b.dir
	return cmd
}

func (b *Broker) format() error {
	out, err := b.command("kafka.tools.StorageTool", "format", "-t", b.clusterID, "-c", "server.properties").
		CombinedOutput()
	if err != nil {
		return fmt.Errorf("format the storage of Kafka node %d: %w: %s", b.Node, err, tail(out, 1500))
	}
	return nil
}

// run starts a main class that writes to a log file.
func (b *Broker) run(logPath, class string, args ...string) (*child.Child, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := b.command(class, args...)
	cmd.Stdout, cmd.Stderr = log, log
	return child.Start(cmd, syscall.SIGKILL)
}

func (b *Broker) launch() error {
	c, err := b.run(b.LogPath(), "kafka.Kafka", "server.properties")
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.child = c
	b.mu.Unlock()
	return nil
}

// awaitReady asks the broker itself, past any proxy, until it names itself among the cluster's brokers: before that it
// is fenced.
func (b *Broker) awaitReady(ctx context.Context) error {
	c := b.process()
	for {
		brokers, err := b.known(ctx)
		if err == nil && slices.Contains(brokers, int32(b.Node)) {
			return nil
		}
		select {
		case <-c.Done():
			return fmt.Errorf("Kafka node %d ended while starting: %w; the end of its log:\n%s", b.Node,
				cmp.Or(c.Err(), errors.New("exit code 0")), b.LogTail(15))
		case <-ctx.Done():
			return fmt.Errorf("Kafka node %d does not serve clients: %w; the end of its log:\n%s", b.Node,
				errors.Join(err, ctx.Err()), b.LogTail(15))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// known are the cluster's brokers as this one sees them. Each time with a new client: what one learns from a cluster
// that is coming up it may hold on to (seen with three nodes of Kafka 3.9, where it never heard of the others).
func (b *Broker) known(ctx context.Context) ([]int32, error) {
	client, err := kafkaclient.New([]string{port.Addr(b.internal)})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ask, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	md, err := client.Admin().BrokerMetadata(ask)
	return md.Brokers.NodeIDs(), err
}

// Start starts a stopped broker on the same data and ports, and returns when it serves clients.
func (b *Broker) Start(ctx context.Context) error {
	if err := b.launch(); err != nil {
		return err
	}
	return b.awaitReady(ctx)
}

// Stop ends the broker as an operator would (SIGTERM: leaders move first where there is another broker) and waits.
func (b *Broker) Stop(ctx context.Context) error {
	c := b.process()
	if c == nil {
		return nil
	}
	if err := c.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-c.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("Kafka node %d has not stopped: %w", b.Node, ctx.Err())
	}
}

// Kill sends SIGKILL and waits for the end. What the broker had acknowledged is in the page cache, so it survives.
func (b *Broker) Kill() {
	if c := b.process(); c != nil {
		c.Kill()
	}
}

// Bounce stops the broker and starts it again.
func (b *Broker) Bounce(ctx context.Context) error {
	if err := b.Stop(ctx); err != nil {
		return err
	}
	return b.Start(ctx)
}

// Signal sends sig, e.g. SIGSTOP and SIGCONT to freeze and thaw the broker.
func (b *Broker) Signal(sig syscall.Signal) error {
	if c := b.process(); c != nil {
		return c.Signal(sig)
	}
	return nil
}

func (b *Broker) process() *child.Child {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.child
}

// Done is closed when the broker's process has ended. It belongs to the latest Start.
func (b *Broker) Done() <-chan struct{} { return b.process().Done() }

// PID is the JVM's process id, 0 before the start.
func (b *Broker) PID() int {
	if c := b.process(); c != nil {
		return c.PID()
	}
	return 0
}

// Addr is what clients connect to, a proxy's address where there is one.
func (b *Broker) Addr() string { return b.addr }

// LogPath is the broker's log file.
func (b *Broker) LogPath() string { return filepath.Join(b.dir, "broker.log") }

// LogTail returns the last n lines of the log.
func (b *Broker) LogTail(n int) string {
	text, _ := os.ReadFile(b.LogPath())
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
