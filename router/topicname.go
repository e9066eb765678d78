package router

import (
	"errors"
	"fmt"
	"strings"
)

const MaxTopicName = 249

var (
	ErrTopicLength   = fmt.Errorf("a topic name has 1 to %d characters", MaxTopicName)
	errTopicDots     = errors.New(`a topic cannot be named "." or ".."`)
	ErrInternalTopic = errors.New(`topics whose names start with "__" are internal to Kafka`)
)

// ErrLetterTopic: in the topic of dead letters an event would be taken for a dead letter, and its headers for another's
// error.
var ErrLetterTopic = errors.New("the topic is that of the dead letters")

// CheckEventTopic reports why events cannot be published to a topic; taken is the topic of dead letters.
func CheckEventTopic(name, taken string) error {
	if name == taken {
		return ErrLetterTopic
	}
	return CheckTopic(name)
}

// CheckTopic returns an error when name is not a legal topic name or is internal to Kafka. The rules are the rules of
// Kafka's org.apache.kafka.common.internals.Topic; in addition CheckTopic refuses every name that starts with "__",
// which covers __consumer_offsets, __transaction_state, __share_group_state and future names. The error does not repeat
// the name: it may hold data.
func CheckTopic(name string) error {
	switch {
	case name == "" || len(name) > MaxTopicName:
		return ErrTopicLength
	case name == "." || name == "..":
		return errTopicDots
	case strings.HasPrefix(name, "__"):
		return ErrInternalTopic
	}
	return CheckChars(name)
}

// CheckChars reports a character that a topic name cannot have.
func CheckChars(s string) error {
	for i, c := range s {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return fmt.Errorf("a topic name consists of letters a-z and A-Z, digits, '.', '_' and '-', and cannot "+
				"hold %U at byte %d", c, i)
		}
	}
	return nil
}
