#include "build/onnx_nodes.hpp"

#include <cstdint>
#include <fcntl.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace trtw {

namespace {

using Bytes = std::span<const std::byte>;

struct Field {
    std::uint32_t number = 0;
    Bytes contents; ///< of length-delimited fields; empty for others
};

// Reads the fields of one protobuf message. Every length is checked against what is left: the file is not trusted.
class FieldReader {
public:
    explicit FieldReader(Bytes message) : rest_{message} {}

    /// The next field; nothing at the end or at malformed bytes.
    std::optional<Field> next() {
        const auto tag = varint();
        if (!tag) {
            return std::nullopt;
        }
        Field field{static_cast<std::uint32_t>(*tag >> 3U), {}};
        switch (*tag & 7U) {
        case 0:
            return varint() ? std::optional{field} : std::nullopt;
        case 1:
            return take(8) ? std::optional{field} : std::nullopt;
        case 5:
            return take(4) ? std::optional{field} : std::nullopt;
        case 2: {
            const auto length = varint();
            const auto contents = length ? take(*length) : std::nullopt;
            if (!contents) {
                return std::nullopt;
            }
            field.contents = *contents;
            return field;
        }
        default: // groups are not used in ONNX
            return std::nullopt;
        }
    }

private:
    std::optional<std::uint64_t> varint() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
            const auto byte = std::to_integer<std::uint64_t>(rest_.front());
            rest_ = rest_.subspan(1);
            value |= (byte & 0x7FU) << shift;
            if ((byte & 0x80U) == 0) {
                return value;
            }
        }
        return std::nullopt;
    }

    std::optional<Bytes> take(std::uint64_t length) {
        if (length > rest_.size()) {
            return std::nullopt;
        }
        const Bytes taken = rest_.first(static_cast<std::size_t>(length));
        rest_ = rest_.subspan(static_cast<std::size_t>(length));
        return taken;
    }

    Bytes rest_;
};

std::string text(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

OnnxNode read_node(Bytes message) {
    OnnxNode node;
    FieldReader reader{message};
    while (const auto field = reader.next()) {
        switch (field->number) {
        case 2:
            if (node.first_output.empty()) {
                node.first_output = text(field->contents);
            }
            break;
        case 3:
            node.name = text(field->contents);
            break;
        case 4:
            node.op_type = text(field->contents);
            break;
        case 7:
            node.domain = text(field->contents);
            break;
        default:
            break;
        }
    }
    return node;
}

// A read-only mapping of a file; models of many gigabytes are not copied for one name.
class MappedFile {
public:
    explicit MappedFile(const std::filesystem::path& file) {
        const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
        if (descriptor < 0) {
            return;
        }
        struct stat info{};
        if (fstat(descriptor, &info) == 0 && info.st_size > 0) {
            size_ = static_cast<std::size_t>(info.st_size);
            void* address = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
            address_ = address == MAP_FAILED ? nullptr : address;
        }
        close(descriptor);
    }
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    MappedFile(MappedFile&&) = delete;
    MappedFile& operator=(MappedFile&&) = delete;
    ~MappedFile() {
        if (address_ != nullptr) {
            munmap(address_, size_);
        }
    }
    [[nodiscard]] Bytes bytes() const {
        return address_ != nullptr ? Bytes{static_cast<const std::byte*>(address_), size_} : Bytes{};
    }

private:
    void* address_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace

std::optional<OnnxNode> onnx_node(std::span<const std::byte> model, std::size_t index) {
    FieldReader model_reader{model};
    while (const auto graph = model_reader.next()) {
        if (graph->number != 7) {
            continue;
        }
        std::size_t count = 0;
        FieldReader graph_reader{graph->contents};
        while (const auto field = graph_reader.next()) {
            if (field->number == 1 && count++ == index) {
                return read_node(field->contents);
            }
        }
        return std::nullopt;
    }
    return std::nullopt;
}

std::optional<OnnxNode> onnx_node(const std::filesystem::path& file, std::size_t index) {
    const MappedFile mapped{file};
    return onnx_node(mapped.bytes(), index);
}

} // namespace trtw
