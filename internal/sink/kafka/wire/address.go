package wire

import (
	"net"
	"strconv"

	"github.com/segmentio/kafka-go/protocol/metadata"
)

// BrokerAddr is where a broker is, as answers name it.
func BrokerAddr(host string, port int32) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// ControllerOf returns the controller's address, empty where the answer does not name it.
func ControllerOf(answer *metadata.Response) string {
	for i := range answer.Brokers {
		if b := &answer.Brokers[i]; b.NodeID == answer.ControllerID {
			return BrokerAddr(b.Host, b.Port)
		}
	}
	return ""
}

// What a coordinator is asked for in FindCoordinator.
const (
	CoordinatesGroups       = 0
	CoordinatesTransactions = 1
)
