package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// Cluster looks at the cluster as `cdc-outbox check` prints it: is each broker reachable and able, may a producer be
// made, do the topics exist, may they be written to, and will they keep what was acknowledged. It writes nothing. The
// error is a *fault.Error of kind Config, or ErrNoBroker beside the findings; whatever Kafka says is a finding.
func Cluster(ctx context.Context, o Options, topics []string) ([]preflight.Finding, error) {
	c, err := newChecker(o)
	if err != nil {
		return nil, err
	}
	w := c.bootstrap(ctx)
	if w == nil {
		return c.findings, ErrNoBroker
	}
	defer func() { _ = w.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	defer stop()
	if err := c.cluster(ctx, w, topics); err != nil {
		c.fail("kafka", err.Error()+".", "The check could not be finished.",
			fault.Do("Look at the brokers' logs and run the check again."))
	}
	return c.findings, nil
}

// Options of a check.
type Options struct {
	wire.Cluster

	// CreateTopic, when set, says how a topic that does not exist is going to be created.
	CreateTopic func(name string) wire.TopicSettings

	// PositionTopic is the topic that positions are committed for. Default DefaultPositionTopic.
	PositionTopic string

	// OldestRow is the time of the oldest row in the outboxes, zero where it is not known.
	OldestRow time.Time
	// KeepTimestamps says that records have the timestamps of their rows, whatever the topic does with them.
	KeepTimestamps bool
	// NullKey is the column of the key where it may be NULL, the zero value if every record has a key.
	NullKey NullKey
}

// NullKey is a column that may be NULL, with the statement that ends that.
type NullKey struct{ Column, SQL string }

// checker collects the findings.
type checker struct {
	cfg      *Options
	brokers  int // of the cluster
	findings []preflight.Finding
}

func newChecker(o Options) (*checker, error) {
	o.SetDefaults()
	o.PositionTopic = cmp.Or(o.PositionTopic, wire.DefaultPositionTopic)
	return &checker{cfg: &o}, o.Validate()
}

func (c *checker) ok(subject, found string) {
	c.add(preflight.OK, subject, found, "", fault.Remedy{})
}

func (c *checker) warn(subject, found, why string, remedy fault.Remedy) {
	c.add(preflight.Warn, subject, found, why, remedy)
}

func (c *checker) fail(subject, found, why string, remedy fault.Remedy) {
	c.add(preflight.Fail, subject, found, why, remedy)
}

func (c *checker) add(level preflight.Level, subject, found, why string, remedy fault.Remedy) {
	f := preflight.Finding{Level: level, Subject: subject, Found: found, Why: why}
	c.findings = append(c.findings, f.With(remedy))
}

// ErrNoBroker is what Cluster returns beside its findings where no configured broker answers: no other question to the
// cluster would be answered either, and each would wait for as long.
var ErrNoBroker = errors.New("no broker answers")

// dialAll connects to every configured broker at the same time: one that hangs takes the whole of DialTimeout.
func (c *checker) dialAll(ctx context.Context) ([]*wire.Conn, []error) {
	conns, errs := make([]*wire.Conn, len(c.cfg.Brokers)), make([]error, len(c.cfg.Brokers))
	var all sync.WaitGroup
	for i, addr := range c.cfg.Brokers {
		all.Go(func() { conns[i], errs[i] = wire.Dial(ctx, &c.cfg.Cluster, addr) })
	}
	all.Wait()
	return conns, errs
}

// bootstrap tries every configured broker and returns a connection to the first good one, nil for none.
func (c *checker) bootstrap(ctx context.Context) *wire.Conn {
	var first *wire.Conn
	dead := map[string]error{}
	conns, errs := c.dialAll(ctx)
	for i, addr := range c.cfg.Brokers {
		switch {
		case errs[i] != nil:
			dead[addr] = errs[i]
		case first == nil:
			first = conns[i]
			c.ok("broker "+addr, "It answers.")
		default:
			_ = conns[i].Close()
			c.ok("broker "+addr, "It answers.")
		}
	}
	report := c.warn
	why := "The others are enough to start, until they fail too."
	if first == nil {
		report, why = c.fail, "Nothing can be published."
	}
	for _, addr := range slices.Sorted(maps.Keys(dead)) {
		var remedy fault.Remedy
		var de *wire.DialError
		if errors.As(dead[addr], &de) {
			remedy = fault.Do(de.Remedy)
		}
		found := dead[addr].Error() + "."
		var silent *wire.Silence
		if errors.As(dead[addr], &silent) {
			found = "It " + silent.What() + "."
		} else if what := fault.Connection(dead[addr]); what != "" {
			found = "It " + what + "."
		}
		report("broker "+addr, found, why, remedy)
	}
	return first
}

// cluster checks the facts that a connected broker has. The error is one of the connection.
func (c *checker) cluster(ctx context.Context, w *wire.Conn, topics []string) error {
	if err := c.producerID(ctx, w); err != nil {
		return err
	}
	slices.Sort(topics)
	res, err := w.RoundTrip(&metadata.Request{
		TopicNames:                       slices.Compact(topics),
		IncludeTopicAuthorizedOperations: true,
	},
		c.cfg.RequestTimeout)
	if err != nil {
		return err
	}
	answer := res.(*metadata.Response)
	c.brokers = len(answer.Brokers)
	if err := c.members(ctx, answer); err != nil {
		return err
	}
	configs, err := c.configs(w, topics)
	if err != nil {
		return err
	}
	var missing []string
	for i := range answer.Topics {
		if t := &answer.Topics[i]; t.ErrorCode == wire.UnknownTopic {
			missing = append(missing, t.Name)
		} else {
			c.topic(t, configs[t.Name])
		}
	}
	return c.missing(ctx, w, wire.ControllerOf(answer), missing)
}

// coordinatorWait is for how long a cluster that has just started is asked again: its coordinators are loading.
const coordinatorWait = 5 * time.Second

func (c *checker) producerID(ctx context.Context, w *wire.Conn) error {
	var code int16
	for until := time.Now().Add(coordinatorWait); ; {
		res, err := w.RoundTrip(&initproducerid.Request{ProducerID: -1, ProducerEpoch: -1}, c.cfg.RequestTimeout)
		if err != nil {
			return err
		}
		code = res.(*initproducerid.Response).ErrorCode
		if a := wire.VerdictOf(code).Action; a == wire.Done || a == wire.Mute ||
			!wire.SleepUntil(ctx, time.Now().Add(200*time.Millisecond)) || time.Now().After(until) {
			break
		}
	}
	switch v := wire.VerdictOf(code); v.Action {
	case wire.Done:
		c.ok("idempotence", "The cluster gives producer ids.")
	case wire.Mute:
		c.fail("idempotence", fmt.Sprintf("InitProducerID answers %s.", v.Name),
			"Without a producer id nothing is published.", c.cfg.AllowIdempotence())
	default:
		c.warn("idempotence", fmt.Sprintf("InitProducerID answers %s.", v.Name),
			"Brokers say so for moments after a start.",
			fault.Do("Run the check again."))
	}
	return nil
}

// members connects to the advertised address of each broker that leads a partition of the topics.
func (c *checker) members(ctx context.Context, answer *metadata.Response) error {
	leads := map[int32]bool{}
	for i := range answer.Topics {
		for j := range answer.Topics[i].Partitions {
			leads[answer.Topics[i].Partitions[j].LeaderID] = true
		}
	}
	for i := range answer.Brokers {
		b := &answer.Brokers[i]
		addr := wire.BrokerAddr(b.Host, b.Port)
		if slices.Contains(c.cfg.Brokers, addr) {
			continue // reported already
		}
		w, err := wire.Dial(ctx, &c.cfg.Cluster, addr)
		if err == nil {
			_ = w.Close()
			c.ok("broker "+addr, fmt.Sprintf("Node %d answers at its advertised address.", b.NodeID))
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		report, why := c.warn, "It leads none of the topics now, but may later."
		if leads[b.NodeID] {
			report, why = c.fail, "It leads partitions of the topics; their records cannot be published."
		}
		report("broker "+addr, fmt.Sprintf("Node %d: %v.", b.NodeID, err), why,
			fault.Do("Make its advertised.listeners name an address that is reachable from here."))
	}
	return nil
}

// configs returns the readable settings of the topics.
func (c *checker) configs(w *wire.Conn, topics []string) (map[string]map[string]string, error) {
	if _, err := w.Version(protocol.DescribeConfigs); err != nil || len(topics) == 0 {
		return nil, nil //nolint:nilerr // without the API there is nothing to read
	}
	req := &describeconfigs.Request{}
	for _, topic := range topics {
		req.Resources = append(req.Resources, describeconfigs.RequestResource{
			ResourceType: wire.ResourceTopic, ResourceName: topic,
			ConfigNames: append([]string{wire.MaxMessageBytes, "min.insync.replicas"}, wire.TimestampSettings...),
		})
	}
	res, err := w.RoundTrip(req, c.cfg.RequestTimeout)
	if err != nil {
		return nil, err
	}
	out := map[string]map[string]string{}
	for _, r := range res.(*describeconfigs.Response).Resources {
		out[r.ResourceName] = map[string]string{}
		for _, e := range r.ConfigEntries {
			out[r.ResourceName][e.ConfigName] = e.ConfigValue
		}
	}
	return out, nil
}

// aclWrite is the bit of the operation WRITE in the authorized operations (KIP-430).
const aclWrite = 1 << 4

func (c *checker) topic(t *metadata.ResponseTopic, config map[string]string) {
	subject := "topic " + t.Name
	if v := wire.VerdictOf(t.ErrorCode); v.Action != wire.Done {
		c.fail(subject, fmt.Sprintf("The broker answers %s.", v.Name), "Records for it would wait.",
			c.cfg.AllowWrite(t.Name))
		return
	}
	if ops := t.TopicAuthorizedOperations; ops != 0 && ops != math.MinInt32 && ops&aclWrite == 0 {
		c.fail(subject, "The user may not write to it.", "Records for it would wait.", c.cfg.AllowWrite(t.Name))
		return
	}
	replicas, leaderless := math.MaxInt, 0
	for i := range t.Partitions {
		replicas = min(replicas, len(t.Partitions[i].ReplicaNodes))
		if t.Partitions[i].LeaderID < 0 {
			leaderless++
		}
	}
	if leaderless > 0 {
		c.fail(subject, fmt.Sprintf("%d of its %d partitions have no leader.", leaderless, len(t.Partitions)),
			"Their records wait.", fault.Do("See which brokers are missing.",
				c.cfg.Command("kafka-topics", "--describe --topic "+t.Name)))
		return
	}
	c.durability(subject, t, replicas, config)
	c.age(subject, t.Name, config)
	if strings.Contains(config[wire.CleanupPolicy], "compact") {
		c.compacted(subject, t.Name)
	}
}

// compacted joins what a compacted topic takes with the keys that the rows may have.
func (c *checker) compacted(subject, topic string) {
	byAge := c.cfg.Command("kafka-configs",
		fmt.Sprintf("--alter --entity-type topics --entity-name %s --add-config cleanup.policy=delete", topic))
	if key := c.cfg.NullKey; key.Column != "" {
		c.warn(subject, fmt.Sprintf("It is compacted, and %s, which is the key, may be NULL.", key.Column),
			"A compacted topic takes no record without a key, so such a row is a bad row.",
			fault.Do("Forbid NULL, or let the topic delete by age.", key.SQL, byAge))
		return
	}
	c.warn(subject, "It is compacted.", "It keeps only the last event of each key.",
		fault.Do("Unless that is meant, let it delete by age.", byAge))
}

// durability judges replicas against min.insync.replicas.
func (c *checker) durability(subject string, t *metadata.ResponseTopic, replicas int, config map[string]string) {
	minISR, err := strconv.Atoi(config["min.insync.replicas"])
	if err != nil {
		minISR = 0
	}
	weak := judgeDurability(c.brokers, replicas, minISR)
	if len(weak) == 0 {
		c.ok(subject, fmt.Sprintf("It has %d partitions and %d replicas.", len(t.Partitions), replicas))
	}
	for _, v := range weak {
		if v.minISR > 0 {
			v.remedy = fault.Do("Set min.insync.replicas.", c.cfg.Command("kafka-configs",
				fmt.Sprintf("--alter --entity-type topics --entity-name %s --add-config min.insync.replicas=%d", t.Name,
					v.minISR)))
		}
		c.warn(subject, v.found, v.why, v.remedy)
	}
}

// weakness is what may become of records that a topic has acknowledged, or what may keep it from acknowledging any.
type weakness struct {
	found, why string
	remedy     fault.Remedy
	minISR     int // that the topic should have; 0: the remedy is another
}

// judgeDurability looks at a topic that is written with acks=all. minISR is 0 where it is not known.
func judgeDurability(brokers, replicas, minISR int) (out []weakness) {
	const lost = "What Kafka acknowledged is lost with that broker's disk, and the slot has moved on."
	if minISR > replicas { // Partition.effectiveMinIsr takes the smaller of the two since Kafka 3.7 (KAFKA-15583)
		out = append(out, weakness{
			found: fmt.Sprintf("min.insync.replicas is %d, of %d replicas.", minISR, replicas),
			why: "A broker older than 3.7 refuses every record (NOT_ENOUGH_REPLICAS); a newer one asks for all the " +
				"replicas that there are.", minISR: max(1, replicas-1),
		})
	}
	switch {
	case replicas == 1 && brokers == 1:
		out = append(out, weakness{
			found: "It has one replica, and the cluster has one broker.", why: lost,
			remedy: fault.Do("Add brokers first, for events that must survive the loss of a disk."),
		})
	case replicas == 1:
		out = append(out, weakness{
			found: fmt.Sprintf("It has one replica, in a cluster of %d brokers.", brokers), why: lost,
			remedy: fault.Do("Reassign its partitions to more brokers, with kafka-reassign-partitions.sh."),
		})
	case minISR == 1:
		out = append(out, weakness{
			found: fmt.Sprintf("min.insync.replicas is 1 of %d.", replicas),
			why:   "A record counts as acknowledged when a single broker has it.", minISR: max(1, replicas-1),
		})
	case minISR == replicas:
		out = append(out, weakness{
			found: fmt.Sprintf("min.insync.replicas is %d of %d.", minISR, replicas),
			why:   "One broker down, for an upgrade for example, and nothing can be published.", minISR: replicas - 1,
		})
	}
	return out
}
