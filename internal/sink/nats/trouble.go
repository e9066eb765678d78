package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Trouble implements sink.Producer. There is one stream, and one cause at a time.
func (p *Producer) Trouble() []sink.Trouble {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trouble == nil {
		return nil
	}
	return []sink.Trouble{*p.trouble}
}

// report notes the cause of a wait, and logs it once as long as it lasts.
func (p *Producer) report(t sink.Trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trouble != nil && p.trouble.Kind == sink.NotAuthorized && t.Kind == sink.BrokerUnreachable {
		return // the server says why before it is silent
	}
	t.Since = since(p.trouble, &t)
	said := p.trouble != nil && p.trouble.Kind == t.Kind && p.trouble.Object == t.Object
	p.trouble = &t
	if !said {
		p.log.Warn("waiting for NATS", zap.String(logkey.Object, t.Object), zap.String(logkey.Reason, t.Sentence),
			zap.String(logkey.Next, t.Remedy), zap.Strings(logkey.Commands, t.Commands))
	}
}

func (p *Producer) fine() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// clear ends the trouble. The caller has the lock.
func (p *Producer) clear() {
	if p.trouble != nil {
		p.log.Info("NATS answers again", zap.String(logkey.Object, p.trouble.Object))
		p.trouble = nil
	}
}

// connectTrouble is the cause of a connection that is not made.
func connectTrouble(servers []string, err error) sink.Trouble {
	t := sink.Trouble{
		Kind: sink.BrokerUnreachable, Object: "servers " + strings.Join(servers, ", "),
		Sentence: "no connection to NATS: " + err.Error(),
		Remedy:   "Start the servers, or correct nats.servers. The relay connects as soon as one answers.",
	}
	var unreadable *unreadableError
	switch {
	case errors.As(err, &unreadable):
		t.Kind = sink.NoToken
		t.Sentence = "the login or a certificate for NATS cannot be read: " + err.Error()
		t.Remedy = "Put the file in its place, readable for this user. The relay reads it at the next attempt."
	case refusesLogin(err):
		t.Kind = sink.NotAuthenticated
		t.Sentence = "NATS refuses the login: " + err.Error()
		t.Remedy = "Correct nats.credentials, nats.nkey, nats.username or nats.token, or the account at the server. " +
			"Files are read again for each connection."
	case strings.Contains(err.Error(), "tls:"), strings.Contains(err.Error(), "x509:"),
		errors.Is(err, client.ErrSecureConnRequired), errors.Is(err, client.ErrSecureConnWanted):
		t.Kind = sink.NotAuthenticated
		t.Remedy = "Correct the section nats.tls, or the certificates of the servers."
	}
	return t
}

func refusesLogin(err error) bool {
	return errors.Is(err, client.ErrAuthorization) || errors.Is(err, client.ErrAuthExpired) ||
		errors.Is(err, client.ErrAuthRevoked) || errors.Is(err, client.ErrAccountAuthExpired) ||
		strings.Contains(strings.ToLower(err.Error()), "authorization violation")
}

// rightTrouble is for a right that is missing, in the server's words.
func rightTrouble(err error) sink.Trouble {
	return sink.Trouble{
		Kind: sink.NotAuthorized, Object: "user of the NATS account",
		Sentence: "NATS refuses a request: " + strings.TrimPrefix(err.Error(), "nats: "),
		Remedy: "Allow the user to publish to the subject that is named. It needs the subjects of the events, " +
			"$JS.API.STREAM.INFO.* and $JS.API.STREAM.MSG.GET.* of the stream, and to subscribe to _INBOX.>.",
	}
}

// streamTrouble is the cause of a question about the stream that has no answer.
func streamTrouble(stream string, err error) sink.Trouble {
	t := sink.Trouble{
		Kind: sink.BrokerUnreachable, Object: fmt.Sprintf("stream %q", stream),
		Sentence: "JetStream does not answer: " + err.Error(),
		Remedy: "See whether the servers are in one cluster and have a majority, and whether the account has " +
			"JetStream (nats server report jetstream).",
	}
	var refused *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		t.Kind, t.Sentence = sink.TopicMissing, "it does not exist"
		t.Remedy = "Create it with subjects that cover every topic of the outbox and the dead-letter topic, or set " +
			"nats.create to true and nats.subjects."
		t.Commands = []string{fmt.Sprintf("nats stream add %s --subjects='outbox.>,cdc-outbox.dead-letter' "+
			"--storage=file --replicas=3 --defaults", stream)}
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		t.Kind, t.Sentence = sink.Rejected, "JetStream is not enabled for the account"
		t.Remedy = "Enable it in the configuration of the servers (jetstream {}), and for the account."
	case errors.As(err, &refused):
		t.Kind, t.Sentence = sink.Rejected, "JetStream refuses a request about it: "+refused.Description
		t.Remedy = "Correct the section nats, or the account's limits; docs/nats.md names the rights that are needed."
	case errors.Is(err, context.DeadlineExceeded):
		t.Sentence = "JetStream does not answer a question about it"
	}
	return t
}

// publishTrouble is the cause of messages that are not stored.
func (p *Producer) publishTrouble(e *end, err error) sink.Trouble {
	stream, subject := fmt.Sprintf("stream %q", p.cfg.Stream), p.firstSubject()
	t := sink.Trouble{
		Kind: sink.Rejected, Object: stream, Sentence: "it does not store a message: " + err.Error(),
		Remedy: "Change the setting of the stream that is named (nats stream edit), or the limit of the account.",
	}
	uncovered := errors.Is(err, errNoResponder) && !covers(e.info.Config.Subjects, subject)
	switch {
	case code(err) == wrongStream, uncovered:
		t.Kind, t.Object = sink.TopicMissing, fmt.Sprintf("subject %q", subject)
		t.Sentence = fmt.Sprintf("it is not a subject of stream %q", p.cfg.Stream)
		t.Remedy = "Add it to the stream's subjects, or correct router.topic."
		t.Commands = []string{fmt.Sprintf("nats stream edit %s --subjects='%s,%s'", p.cfg.Stream,
			strings.Join(e.info.Config.Subjects, ","), subject)}
	case errors.Is(err, errNoResponder):
		t.Kind, t.Sentence = sink.NoLeader, "no server leads it"
		t.Remedy = "See which of its servers are away (nats stream report): it needs a majority of its replicas."
	case errors.Is(err, errSilent):
		t.Kind, t.Sentence = sink.BrokerUnreachable, "it does not acknowledge messages: "+err.Error()
		t.Remedy = "See whether the servers have a majority (nats stream report), and whether the stream has no_ack."
	}
	return t
}

func (p *Producer) firstSubject() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue.messages) == 0 {
		return ""
	}
	return p.queue.messages[0].msg.Subject
}

// answerError is JetStream's error (its error codes are in the server's errors.json).
type answerError struct {
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

const (
	wrongStream   = 10060
	wrongLastID   = 10070
	wrongLastSeq  = 10071
	wrongConstant = 10164 // a last sequence, while others are being stored
)

func (e *answerError) Error() string {
	text := e.Description
	if len(text) > 200 {
		text = text[:200]
	}
	return fmt.Sprintf("%s (error code %d)", strings.ToValidUTF8(text, "?"), e.Code)
}

// code is the error code of an answer, 0 if the error is not an answer's.
func code(err error) int {
	var a *answerError
	if errors.As(err, &a) {
		return a.Code
	}
	return 0
}

// covers reports whether one of a stream's subjects matches the subject.
func covers(subjects []string, subject string) bool {
	return slices.ContainsFunc(subjects, func(s string) bool { return matches(s, subject) })
}

// matches applies the wildcards: * is one part, > is all that follow.
func matches(pattern, subject string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, part := range want {
		switch {
		case part == ">":
			return i < len(have)
		case i >= len(have), part != "*" && part != have[i]:
			return false
		}
	}
	return len(want) == len(have)
}
