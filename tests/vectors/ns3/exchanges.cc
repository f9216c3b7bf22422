// Requests and responses over TCP in ns-3, and how long each took.
//
// Two nodes (or three, with a store-and-forward relay in the middle) in a row, joined by
// point-to-point links that are alike. The first node opens a connection and sends `up` bytes; once
// all of them are at the last node, that one sends `down` bytes back. A second exchange follows on
// the same connections at the moment the first is over. A relay has a connection on each side, and
// forwards what is whole; it opens the connection to the last node when it first needs it.
//
// Every run is a simulation of its own, with its number as ns-3's run number. For each, one line
// with the milliseconds of the first exchange, connecting included, and of the second.
//
//     exchanges --algorithm=reno --delay=50 --rate=50 --up=10000 --down=50000
//               [--loss=0.01] [--clean] [--relay] [--first=1] [--runs=1]
//
// With --clean packets get lost only once the first exchange is over.

#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-module.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

using namespace ns3;

namespace {

constexpr uint16_t PORT = 7000;
constexpr uint32_t LARGE = 1u << 28;

struct Options {
    std::string algorithm = "reno";
    double delay = 50; // ms, one way
    double rate = 50;  // Mbit/s
    uint32_t up = 10000;
    uint32_t down = 50000;
    double loss = 0;
    bool clean = false;
    bool relay = false;
    uint32_t first = 1;
    uint32_t runs = 1;
};

// Calls back whenever another `size` bytes have come.
class Inbox {
  public:
    Inbox(uint32_t size, std::function<void()> whole) : m_size(size), m_whole(std::move(whole)) {}

    void Receive(Ptr<Socket> socket) {
        while (Ptr<Packet> packet = socket->Recv()) {
            m_got += packet->GetSize();
        }
        while (m_got >= m_size) {
            m_got -= m_size;
            m_whole();
        }
    }

  private:
    uint32_t m_size;
    uint32_t m_got = 0;
    std::function<void()> m_whole;
};

// A connection between neighbours: it carries requests one way, and responses back.
class Hop {
  public:
    Hop(Ptr<Node> opener, Ptr<Node> other, Ipv4Address address, const Options& options,
        std::function<void()> onRequest, std::function<void()> onResponse)
        : m_opener(opener),
          m_address(address),
          m_up(options.up),
          m_down(options.down),
          m_requests(options.up, std::move(onRequest)),
          m_responses(options.down, std::move(onResponse)) {
        m_listener = Socket::CreateSocket(other, TcpSocketFactory::GetTypeId());
        m_listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
        m_listener->Listen();
        m_listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                      MakeCallback(&Hop::Accepted, this));
    }

    // Sends a request; the first one once the connection is open.
    void Ask() {
        if (m_client) {
            Connected(m_client);
            return;
        }
        m_client = Socket::CreateSocket(m_opener, TcpSocketFactory::GetTypeId());
        m_client->SetConnectCallback(MakeCallback(&Hop::Connected, this),
                                     MakeNullCallback<void, Ptr<Socket>>());
        m_client->SetRecvCallback(MakeCallback(&Inbox::Receive, &m_responses));
        m_client->Connect(InetSocketAddress(m_address, PORT));
    }

    void Answer() { m_server->Send(Create<Packet>(m_down)); }

  private:
    void Connected(Ptr<Socket> socket) { socket->Send(Create<Packet>(m_up)); }

    void Accepted(Ptr<Socket> socket, const Address&) {
        m_server = socket;
        m_server->SetRecvCallback(MakeCallback(&Inbox::Receive, &m_requests));
    }

    Ptr<Node> m_opener;
    Ipv4Address m_address;
    uint32_t m_up;
    uint32_t m_down;
    Inbox m_requests;
    Inbox m_responses;
    Ptr<Socket> m_listener;
    Ptr<Socket> m_client;
    Ptr<Socket> m_server;
};

// Each device loses what it receives, independently; a random stream for each.
std::vector<Ptr<RateErrorModel>> MakeLossy(const NetDeviceContainer& devices, double loss) {
    std::vector<Ptr<RateErrorModel>> models;
    for (uint32_t i = 0; i < devices.GetN(); ++i) {
        auto model = CreateObject<RateErrorModel>();
        model->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
        model->SetRate(loss);
        model->AssignStreams(i);
        devices.Get(i)->SetAttribute("ReceiveErrorModel", PointerValue(model));
        models.push_back(model);
    }
    return models;
}

void Run(const Options& options, uint32_t number) {
    RngSeedManager::SetRun(number);

    const uint32_t hopCount = options.relay ? 2 : 1;
    NodeContainer nodes;
    nodes.Create(hopCount + 1);
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false); // no packets but those of TCP
    stack.Install(nodes);

    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(uint64_t(options.rate * 1e6))));
    link.SetChannelAttribute("Delay", TimeValue(NanoSeconds(uint64_t(options.delay * 1e6))));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1000000p"));
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    NetDeviceContainer devices;
    std::vector<Ipv4Address> targets;
    for (uint32_t i = 0; i < hopCount; ++i) {
        NetDeviceContainer pair = link.Install(nodes.Get(i), nodes.Get(i + 1));
        targets.push_back(addresses.Assign(pair).GetAddress(1));
        addresses.NewNetwork();
        TrafficControlHelper().Uninstall(pair); // FqCoDel would drop what waits for long
        devices.Add(pair);
    }
    auto models = MakeLossy(devices, options.loss);
    auto enable = [&models](bool lossy) {
        for (auto& model : models) {
            lossy ? model->Enable() : model->Disable();
        }
    };
    enable(!options.clean);

    std::vector<std::unique_ptr<Hop>> hops(hopCount);
    const Time start = Seconds(1);
    std::vector<Time> over;
    auto finished = [&] {
        over.push_back(Simulator::Now());
        if (over.size() == 1) {
            enable(true);
            hops[0]->Ask();
        } else {
            Simulator::Stop();
        }
    };
    for (uint32_t i = 0; i < hopCount; ++i) {
        auto onRequest = [&hops, i, hopCount] {
            i + 1 < hopCount ? hops[i + 1]->Ask() : hops[i]->Answer();
        };
        auto onResponse = [&hops, &finished, i] { i > 0 ? hops[i - 1]->Answer() : finished(); };
        hops[i] = std::make_unique<Hop>(nodes.Get(i), nodes.Get(i + 1), targets[i], options,
                                        onRequest, onResponse);
    }
    // Not at 0, which ns-3 takes for a missing time stamp; time stamps count whole milliseconds,
    // so this is one.
    Simulator::Schedule(start, &Hop::Ask, hops[0].get());
    Simulator::Run();
    if (over.size() != 2) {
        // ns-3 gives up a connection after six SYNs, or six timeouts in a row.
        std::printf("nan nan\n");
    } else {
        std::printf("%.6f %.6f\n", (over[0] - start).GetNanoSeconds() / 1e6,
                    (over[1] - over[0]).GetNanoSeconds() / 1e6);
    }
    Simulator::Destroy();
}

void Configure(const Options& options) {
    NS_ABORT_MSG_UNLESS(options.algorithm == "reno" || options.algorithm == "cubic",
                        "the algorithm is reno or cubic");
    const std::string type =
        options.algorithm == "reno" ? "ns3::TcpLinuxReno" : "ns3::TcpCubic";
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName(type)));
    Config::SetDefault("ns3::TcpCubic::HyStart", BooleanValue(false));
    // As Linux has it.
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(1)));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    // Never what limits.
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(LARGE));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(LARGE));
}

} // namespace

int main(int argc, char* argv[]) {
    Options options;
    CommandLine command;
    command.AddValue("algorithm", "reno or cubic", options.algorithm);
    command.AddValue("delay", "one way, ms", options.delay);
    command.AddValue("rate", "Mbit/s", options.rate);
    command.AddValue("up", "bytes of a request", options.up);
    command.AddValue("down", "bytes of a response", options.down);
    command.AddValue("loss", "probability that a packet is lost", options.loss);
    command.AddValue("clean", "nothing is lost in the first exchange", options.clean);
    command.AddValue("relay", "a relay in the middle", options.relay);
    command.AddValue("first", "number of the first run", options.first);
    command.AddValue("runs", "how many", options.runs);
    command.Parse(argc, argv);
    Configure(options);
    for (uint32_t i = 0; i < options.runs; ++i) {
        Run(options, options.first + i);
    }
    return 0;
}
