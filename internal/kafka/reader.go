package kafka

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// ErrNoTopic is the cause where a topic to read does not exist.
var ErrNoTopic = errors.New("the topic does not exist")

// Reader reads ranges of topics as a consumer with isolation.level=read_committed sees them: no control records,
// nothing of aborted transactions (kafka-go's own reader returns both). It joins no group and commits nothing. A
// Reader is for one goroutine, but for Waits, and has none of its own. Close it.
type Reader struct {
	cfg     *Config
	wires   map[string]*wire // by address
	leaders map[string][]string
	fetch   fetchBuffer
	wait    atomic.Pointer[Wait]
}

// Wait is what a Reader waits for.
type Wait struct {
	Object string
	Err    error // of the last attempt; nil while there was none but the one that is under way
	Since  time.Time
}

// Waits returns what the Reader is waiting for, nil for nothing. Any goroutine may ask.
func (r *Reader) Waits() *Wait { return r.wait.Load() }

// Span is the range [From, End) of offsets of a partition. Raise From to go on where one stopped.
type Span struct {
	Topic     string
	Partition int32
	From, End int64
}

// Message is a record as it is read. It is valid until the next step of the iteration; Clone keeps it.
type Message struct {
	Topic      string
	Partition  int32
	Offset     int64
	Timestamp  int64  // milliseconds since the Unix epoch
	Key, Value []byte // nil: null
	Headers    []router.Header
}

// Clone returns a copy that stays valid.
func (m *Message) Clone() *Message {
	c := *m
	c.Key, c.Value = slices.Clone(m.Key), slices.Clone(m.Value)
	c.Headers = slices.Clone(m.Headers)
	for i := range c.Headers {
		c.Headers[i].Value = slices.Clone(c.Headers[i].Value)
	}
	return &c
}

// Header returns the value of the first header of the name.
func (m *Message) Header(key string) ([]byte, bool) {
	for i := range m.Headers {
		if m.Headers[i].Key == key {
			return m.Headers[i].Value, true
		}
	}
	return nil, false
}

// NewReader makes a reader; of the configuration it takes the connections' part. It connects when it is used.
func NewReader(cfg Config) (*Reader, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Reader{cfg: &cfg, wires: map[string]*wire{}, leaders: map[string][]string{}}, nil
}

// Close ends the connections.
func (r *Reader) Close() {
	for addr := range r.wires {
		r.drop(addr)
	}
}

// Topics lists the cluster's topics, sorted, without those that Kafka keeps for itself.
func (r *Reader) Topics(ctx context.Context) ([]string, error) {
	var names []string
	err := r.retry(ctx, "kafka", func() error {
		answer, err := r.metadata(ctx, nil)
		if err != nil {
			return err
		}
		names = names[:0]
		for i := range answer.Topics {
			if t := &answer.Topics[i]; !t.IsInternal {
				names = append(names, t.Name)
			}
		}
		slices.Sort(names)
		return nil
	})
	return names, err
}

// Spans returns what can be read of the topics right now, by topic and partition: from the start of the log to the last
// stable offset, behind which transactions are still open.
func (r *Reader) Spans(ctx context.Context, topics ...string) ([]Span, error) {
	var spans []Span
	for _, topic := range slices.Compact(slices.Sorted(slices.Values(topics))) {
		err := r.retry(ctx, "topic "+topic, func() error {
			if err := r.lookUp(ctx, topic); err != nil {
				return err
			}
			var of []Span
			for i := range r.leaders[topic] {
				s := Span{Topic: topic, Partition: int32(i)}
				var err error
				if s.From, err = r.offset(ctx, s, earliest); err == nil {
					s.End, err = r.offset(ctx, s, latest)
				}
				if err != nil {
					return err
				}
				of = append(of, s)
			}
			spans = append(spans, of...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return spans, nil
}

// Messages iterates over the span, in order. After an error the iteration ends. Records that retention deletes
// meanwhile are an error, too.
func (r *Reader) Messages(ctx context.Context, s Span) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		at, stopped := s.From, false
		for at < s.End && !stopped {
			err := r.retry(ctx, fmt.Sprintf("topic %s, partition %d", s.Topic, s.Partition), func() error {
				next, more, err := r.fetchOnce(ctx, s, at, func(m *Message) bool { return yield(m, nil) })
				at, stopped = next, !more
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// Special timestamps of ListOffsets.
const (
	earliest = -2
	latest   = -1
)

// readCommitted is the isolation level in requests.
const readCommitted = 1

func (r *Reader) offset(ctx context.Context, s Span, timestamp int64) (int64, error) {
	w, err := r.leader(ctx, s)
	if err != nil {
		return 0, err
	}
	if v, err := w.version(protocol.ListOffsets); err != nil || v < 2 {
		return 0, tooOld(w, protocol.ListOffsets)
	}
	res, err := r.ask(ctx, w, &listoffsets.Request{
		ReplicaID: -1, IsolationLevel: readCommitted,
		Topics: []listoffsets.RequestTopic{{Topic: s.Topic, Partitions: []listoffsets.RequestPartition{
			{Partition: s.Partition, CurrentLeaderEpoch: -1, Timestamp: timestamp},
		}}},
	})
	if err != nil {
		return 0, err
	}
	answer := res.(*listoffsets.Response)
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("ListOffsets answers %d topics where one was asked for", len(answer.Topics))
	}
	p := answer.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return 0, &codeError{"ListOffsets", p.ErrorCode}
	}
	return p.Offset, nil
}

func (r *Reader) metadata(ctx context.Context, topics []string) (*metadata.Response, error) {
	w, err := r.any(ctx)
	if err != nil {
		return nil, err
	}
	res, err := r.ask(ctx, w, &metadata.Request{TopicNames: topics})
	if err != nil {
		return nil, err
	}
	return res.(*metadata.Response), nil
}

// lookUp learns who leads the topic's partitions.
func (r *Reader) lookUp(ctx context.Context, topic string) error {
	answer, err := r.metadata(ctx, []string{topic})
	if err != nil {
		return err
	}
	addrs := map[int32]string{}
	for i := range answer.Brokers {
		b := &answer.Brokers[i]
		addrs[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	for i := range answer.Topics {
		t := &answer.Topics[i]
		if t.Name != topic {
			continue
		}
		if t.ErrorCode != 0 {
			return &codeError{"Metadata", t.ErrorCode}
		}
		leaders := make([]string, len(t.Partitions))
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if int(p.PartitionIndex) >= len(leaders) || addrs[p.LeaderID] == "" {
				return &codeError{"Metadata", 5}
			}
			leaders[p.PartitionIndex] = addrs[p.LeaderID]
		}
		r.leaders[topic] = leaders
		return nil
	}
	return &codeError{"Metadata", 3}
}

// leader returns a connection to the partition's leader.
func (r *Reader) leader(ctx context.Context, s Span) (*wire, error) {
	if r.leaders[s.Topic] == nil {
		if err := r.lookUp(ctx, s.Topic); err != nil {
			return nil, err
		}
	}
	if int(s.Partition) >= len(r.leaders[s.Topic]) {
		return nil, &codeError{"Metadata", 3}
	}
	return r.connect(ctx, r.leaders[s.Topic][s.Partition])
}

// any returns a connection to whichever broker answers.
func (r *Reader) any(ctx context.Context) (*wire, error) {
	for _, w := range r.wires {
		return w, nil
	}
	var errs []error
	for _, addr := range r.cfg.Brokers {
		w, err := r.connect(ctx, addr)
		if err == nil {
			return w, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (r *Reader) connect(ctx context.Context, addr string) (*wire, error) {
	if w := r.wires[addr]; w != nil {
		return w, nil
	}
	w, err := dial(ctx, r.cfg, addr)
	if err != nil {
		return nil, err
	}
	r.wires[addr] = w
	return w, nil
}

// drop closes a connection that broke.
func (r *Reader) drop(addr string) {
	if w := r.wires[addr]; w != nil {
		_ = w.nc.Close()
		delete(r.wires, addr)
	}
}

// ask sends a request; the end of the context ends the connection, and with it the wait.
func (r *Reader) ask(ctx context.Context, w *wire, req protocol.Message) (protocol.Message, error) {
	stop := context.AfterFunc(ctx, func() { _ = w.nc.Close() })
	defer stop()
	res, err := w.roundTrip(req, r.cfg.RequestTimeout)
	if err != nil {
		r.drop(w.addr)
	}
	return res, err
}

// retry repeats f while what fails may pass by itself, for as long as a broker may take to answer a request; then the
// error is one for a person.
func (r *Reader) retry(ctx context.Context, object string, f func() error) error {
	began := time.Now()
	r.wait.Store(&Wait{Object: object, Since: began})
	defer r.wait.Store(nil)
	until := began.Add(r.cfg.RequestTimeout)
	for delay := r.cfg.pace.backoffMin; ; delay = min(2*delay, r.cfg.pace.backoffMax) {
		err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if kind, next := judgeRead(err); kind != fault.Retry || time.Now().After(until) {
			if kind == fault.Retry {
				kind = fault.Fatal
			}
			var code *codeError
			if errors.As(err, &code) && code.code == 3 {
				err = ErrNoTopic
			}
			return &fault.Error{Kind: kind, Object: object, Err: err, Next: next}
		}
		r.wait.Store(&Wait{Object: object, Err: err, Since: began})
		r.leaders = map[string][]string{}
		if !sleepUntil(ctx, time.Now().Add(delay)) {
			return context.Cause(ctx)
		}
	}
}

// judgeRead is what to do about an error of reading.
func judgeRead(err error) (fault.Kind, string) {
	var (
		dialed *dialError
		code   *codeError
		data   *dataError
		gone   *goneError
	)
	switch {
	case errors.As(err, &dialed):
		if dialed.kind == NotAuthenticated {
			return fault.Operator, dialed.remedy
		}
		return fault.Retry, dialed.remedy
	case errors.As(err, &data):
		return fault.Fatal, "Read the topic with another client to see whether the broker or this program is wrong."
	case errors.As(err, &gone):
		return fault.Operator, "Read again from the offset at which the log starts now, or give the topic a longer retention first."
	case errors.As(err, &code):
		switch v := verdictOf(code.code); {
		case code.code == 3:
			return fault.Operator, "Check the name; create the topic if it is missing."
		case v.trouble == NotAuthorized:
			return fault.Operator, "Allow the user to read and describe the topic: kafka-acls --add --operation Read --operation Describe --topic NAME"
		case v.action == rewind || v.action == refresh:
			return fault.Retry, "Look at the brokers' logs and the partition's leader."
		}
		return fault.Fatal, "Look at the brokers' logs."
	}
	return fault.Retry, "Check that the broker runs and is reachable from here."
}

func tooOld(w *wire, api protocol.ApiKey) error {
	return &dataError{fmt.Sprintf("the broker at %s offers no version of %s with read_committed (Kafka 0.11)", w.addr, api)}
}
