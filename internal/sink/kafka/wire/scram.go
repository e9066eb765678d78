package wire

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/xdg-go/scram"
)

// MaxIterations bounds the work of a login by SCRAM, of which the broker says how much there is (RFC 5802, 5.1).
// RFC 7677 asks for at least 4,096; Kafka takes 16,384 at most for a user (ScramMechanism). A million takes about a
// second, and nothing ends it meanwhile.
const MaxIterations = 1_000_000

// scramMechanism is SCRAM as Kafka has it: the password is not prepared (ScramFormatter.normalize), so kafka-go's
// mechanism, which does prepare it, is refused with letters such as ² and µ.
type scramMechanism struct {
	name   string
	client *scram.Client
}

func newSCRAM(name, user, password string) (sasl.Mechanism, error) {
	if strings.ContainsFunc(user+password, unicode.IsControl) {
		return nil, errControl
	}
	hash := scram.HashGeneratorFcn(sha512.New)
	if name == "SCRAM-SHA-256" {
		hash = sha256.New
	}
	client, err := hash.NewClientUnprepped(user, password, "")
	if err != nil {
		return nil, errors.New("SCRAM cannot be begun") // the error may quote the password
	}
	return &scramMechanism{name, client}, nil
}

// errControl is for a secret's file with two lines, above all. It quotes nothing.
var errControl = errors.New("the name or the password has a control character, which SCRAM does not allow, such as a " +
	"line feed")

func (m *scramMechanism) Name() string { return m.name }

func (m *scramMechanism) Start(context.Context) (sasl.StateMachine, []byte, error) {
	s := &scramSession{m.client.NewConversation()}
	first, err := s.conversation.Step("")
	return s, []byte(first), err
}

type scramSession struct{ conversation *scram.ClientConversation }

func (s *scramSession) Next(_ context.Context, challenge []byte) (bool, []byte, error) {
	for attribute := range strings.SplitSeq(string(challenge), ",") {
		count, isCount := strings.CutPrefix(attribute, "i=")
		if n, err := strconv.Atoi(count); isCount && (err != nil || n < 1 || n > MaxIterations) {
			return false, nil, fmt.Errorf("the broker asks for %.20q iterations of SCRAM, more than %d", count,
				MaxIterations)
		}
	}
	answer, err := s.conversation.Step(string(challenge))
	return s.conversation.Done(), []byte(answer), err
}
