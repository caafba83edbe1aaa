// SPDX-License-Identifier: Apache-2.0
#include "convert/torch/pickle_reader.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"
#include "base/types.hpp"
#include "base/utf8.hpp"
#include "convert/torch/pickle_calls.hpp"
#include "convert/torch/pickle_globals.hpp"
#include "convert/torch/pickle_opcodes.hpp"

namespace lm::convert {
namespace {

// The bytes of a pickle, with bounds checks, and the error for a refused pickle.
class PickleInput {
  public:
    // Reads from bytes[at]. Each read advances `at`. The arguments must outlive this object.
    // `path`: the file that errors name.
    PickleInput(std::span<const std::byte> bytes, size_t& at, const std::string& path)
        : bytes_(bytes), at_(at), path_(path) {}

    size_t left() const { return bytes_.size() - at_; }

    template <typename... Args>
    [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
        run_error(path_, "pickle refused at byte {}: {}", at_,
                  fmt::format(format, std::forward<Args>(args)...));
    }

    std::string_view take(u64 n) {
        if (n > bytes_.size() - at_) refuse("truncated: expected {} more bytes", n);
        const auto* from = reinterpret_cast<const char*>(bytes_.data()) + at_;
        at_ += static_cast<size_t>(n);
        return {from, static_cast<size_t>(n)};
    }
    template <typename T>
    T number() {
        T value;
        std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
        return value;
    }
    std::string_view line() {
        const auto* from = reinterpret_cast<const char*>(bytes_.data()) + at_;
        const std::string_view rest(from, bytes_.size() - at_);
        const size_t end = rest.substr(0, 1024).find('\n');
        if (end == rest.npos) refuse("a name does not end");
        at_ += end + 1;
        return rest.substr(0, end);
    }

  private:
    std::span<const std::byte> bytes_;
    size_t& at_;
    const std::string& path_;
};

using Kind = PickleValue::Kind;

constexpr size_t max_values = 8'000'000;
constexpr size_t max_items = 32'000'000;
constexpr int max_depth = 1000;
constexpr size_t max_marks = 1000;

class Machine : private PickleInput {
  public:
    using PickleInput::PickleInput;

    Pickle run() {
        for (;;) {
            const auto opcode = static_cast<u8>(take(1)[0]);
            if (opcode == STOP) break;
            if (!constant(opcode) && !container(opcode) && !stack(opcode) && !call(opcode)) {
                refuse("the opcode 0x{:02x} is not part of checkpoints", opcode);
            }
        }
        pickle_.root = pop();
        if (!stack_.empty() || !marks_.empty()) refuse("values are left on the stack");
        return std::move(pickle_);
    }

  private:
    PickleValue& make(Kind kind) {
        if (pickle_.values.size() >= max_values) refuse("more than {} values", max_values);
        pickle_.values.emplace_back();
        pickle_.values.back().kind = kind;
        return pickle_.values.back();
    }
    PickleValue& push(Kind kind) {
        PickleValue& value = make(kind);
        stack_.push_back(&value);
        return value;
    }
    size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }
    PickleValue* pop() {
        if (stack_.size() <= bottom()) refuse("the stack is empty");
        PickleValue* value = stack_.back();
        stack_.pop_back();
        return value;
    }
    PickleValue& top(Kind kind) {
        if (stack_.size() <= bottom()) refuse("the stack is empty");
        if (!stack_.back()->is(kind)) {
            refuse("expected a {}, got a {}", name_of(kind), name_of(stack_.back()->kind));
        }
        return *stack_.back();
    }
    std::vector<PickleValue*> pop_to_mark() {
        if (marks_.empty()) refuse("no mark");
        const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
        std::vector<PickleValue*> items(from, stack_.end());
        stack_.erase(from, stack_.end());
        marks_.pop_back();
        return items;
    }
    // Adds items to a container, within the bounds of memory and nesting.
    void add(PickleValue& to, const std::vector<PickleValue*>& items) {
        count(items.size());
        for (PickleValue* item : items) {
            deepen(to, *item);
            to.items.push_back(item);
        }
    }
    void deepen(PickleValue& to, const PickleValue& item) const {
        to.depth = std::max(to.depth, item.depth + 1);
        if (to.depth > max_depth) refuse("containers nested deeper than {} levels", max_depth);
    }
    void count(size_t n) {
        n_items_ += n;
        if (n_items_ > max_items) refuse("more than {} items", max_items);
    }

    void push_text(std::string_view text, Kind kind) { push(kind).text = text; }
    // Pushes a text. Python may write unpaired surrogates; U+FFFD replaces them.
    void push_unicode(std::string_view text) {
        if (is_valid_utf8(text)) {
            push_text(text, Kind::text);
        } else {
            append_utf8_lossy(push(Kind::text).text, text);
        }
    }
    void push_integer(i64 value) { push(Kind::integer).integer = value; }
    void push_long(std::string_view bytes) {
        if (bytes.size() > 8) {
            push_text(bytes, Kind::big_integer);
            return;
        }
        u64 value = 0;
        for (size_t i = 0; i < bytes.size(); ++i) {
            value |= static_cast<u64>(static_cast<u8>(bytes[i])) << (8 * i);
        }
        const bool negative = !bytes.empty() && (static_cast<u8>(bytes.back()) & 0x80U) != 0;
        if (negative && bytes.size() < 8) value |= ~u64{0} << (8 * bytes.size());
        push_integer(static_cast<i64>(value));
    }

    bool constant(u8 opcode) {
        switch (opcode) {
            case NONE:
                push(Kind::none);
                return true;
            case NEWTRUE:
            case NEWFALSE:
                push(Kind::boolean).boolean = opcode == NEWTRUE;
                return true;
            case BININT:
                push_integer(number<i32>());
                return true;
            case BININT1:
                push_integer(number<u8>());
                return true;
            case BININT2:
                push_integer(number<u16>());
                return true;
            case LONG1:
                push_long(take(number<u8>()));
                return true;
            case LONG4:
                push_long(take(number<u32>()));
                return true;
            case BINFLOAT:
                push(Kind::real).real = std::bit_cast<double>(__builtin_bswap64(number<u64>()));
                return true;
            case BINUNICODE:
                push_unicode(take(number<u32>()));
                return true;
            case SHORT_BINUNICODE:
                push_unicode(take(number<u8>()));
                return true;
            case BINUNICODE8:
                push_unicode(take(number<u64>()));
                return true;
            case SHORT_BINSTRING:
                push_text(take(number<u8>()), Kind::text);
                return true;
            case BINSTRING:
                push_text(take(number<u32>()), Kind::text);
                return true;
            case SHORT_BINBYTES:
                push_text(take(number<u8>()), Kind::bytes);
                return true;
            case BINBYTES:
                push_text(take(number<u32>()), Kind::bytes);
                return true;
            case BINBYTES8:
                push_text(take(number<u64>()), Kind::bytes);
                return true;
            default:
                return false;
        }
    }

    void tuple(std::vector<PickleValue*> items) { add(push(Kind::tuple), items); }
    void tuple_of(int n) {
        std::vector<PickleValue*> items(static_cast<size_t>(n));
        for (size_t i = items.size(); i-- > 0;) items[i] = pop();
        tuple(std::move(items));
    }
    void set_items(const std::vector<PickleValue*>& items) {
        if (items.size() % 2 != 0) refuse("a dict has a key without a value");
        // The object is of a subclass of dict, which is not interpreted, so its items are dropped.
        if (stack_.size() > bottom() && stack_.back()->is(Kind::object)) return;
        add(top(Kind::dict), items);
    }
    void append_items(const std::vector<PickleValue*>& items) {
        if (stack_.size() > bottom() && stack_.back()->is(Kind::object)) return;
        add(top(Kind::list), items);
    }

    bool container(u8 opcode) {
        switch (opcode) {
            case EMPTY_DICT:
                push(Kind::dict);
                return true;
            case EMPTY_LIST:
                push(Kind::list);
                return true;
            case EMPTY_SET:
                push(Kind::set);
                return true;
            case EMPTY_TUPLE:
                push(Kind::tuple);
                return true;
            case TUPLE:
                tuple(pop_to_mark());
                return true;
            case TUPLE1:
            case TUPLE2:
            case TUPLE3:
                tuple_of(opcode - TUPLE1 + 1);
                return true;
            case LIST: {
                const auto items = pop_to_mark();
                add(push(Kind::list), items);
                return true;
            }
            case DICT: {
                const auto items = pop_to_mark();
                push(Kind::dict);
                set_items(items);
                return true;
            }
            case FROZENSET: {
                const auto items = pop_to_mark();
                add(push(Kind::set), items);
                return true;
            }
            case SETITEM: {
                PickleValue* value = pop();
                PickleValue* key = pop();
                set_items({key, value});
                return true;
            }
            case SETITEMS:
                set_items(pop_to_mark());
                return true;
            case APPEND:
                append_items({pop()});
                return true;
            case APPENDS:
                append_items(pop_to_mark());
                return true;
            case ADDITEMS: {
                const auto items = pop_to_mark();
                add(top(Kind::set), items);
                return true;
            }
            default:
                return false;
        }
    }

    void put(u32 index) {
        if (stack_.size() <= bottom()) refuse("the stack is empty");
        memo_[index] = stack_.back();
    }
    void get(u32 index) {
        const auto found = memo_.find(index);
        if (found == memo_.end()) refuse("the memo has no entry {}", index);
        stack_.push_back(found->second);
    }

    bool stack(u8 opcode) {
        switch (opcode) {
            case PROTO:
                if (const u8 protocol = number<u8>(); protocol > 5) {
                    refuse("protocol {} is unknown", protocol);
                }
                return true;
            case FRAME:
                if (number<u64>() > left()) refuse("a frame exceeds the file");
                return true;
            case MARK:
                if (marks_.size() >= max_marks) refuse("more than {} marks", max_marks);
                marks_.push_back(stack_.size());
                return true;
            case POP:
                pop();
                return true;
            case POP_MARK:
                pop_to_mark();
                return true;
            case DUP:
                if (stack_.size() <= bottom()) refuse("the stack is empty");
                stack_.push_back(stack_.back());
                count(1);
                return true;
            case BINPUT:
                put(number<u8>());
                return true;
            case LONG_BINPUT:
                put(number<u32>());
                return true;
            case MEMOIZE:
                put(static_cast<u32>(memo_.size()));
                return true;
            case BINGET:
                get(number<u8>());
                count(1);
                return true;
            case LONG_BINGET:
                get(number<u32>());
                count(1);
                return true;
            default:
                return false;
        }
    }

    void push_global(std::string_view module, std::string_view name) {
        if (!is_known_global(module, name)) {
            refuse("it refers to {}.{}, which is not part of checkpoints: nothing was executed",
                   module, name);
        }
        push(Kind::global).text = fmt::format("{} {}", module, name);
    }

    void apply(bool with_keywords) {
        if (with_keywords) pop();
        PickleValue* arguments = pop();
        PickleValue* callable = pop();
        if (!arguments->is(Kind::tuple)) refuse("the arguments of a call are not a tuple");
        PickleValue& value = push(Kind::object);
        value.callable = callable;
        deepen(value, *callable);
        add(value, arguments->items);
        const size_t n_before = value.items.size();
        if (const std::string problem = interpret_call(value); !problem.empty()) {
            refuse("{}", problem);
        }
        if (value.items.size() > n_before) count(value.items.size());
        count(value.text.size() / sizeof(PickleValue*));
        if (!value.is(Kind::object)) value.callable = nullptr;
    }

    // Executes BUILD: sets the state of an object. Drops the state of a dict, which is PyTorch's
    // _metadata.
    void build() {
        PickleValue* state = pop();
        if (stack_.size() <= bottom()) refuse("the stack is empty");
        PickleValue& object = *stack_.back();
        if (!object.is(Kind::object)) return;
        deepen(object, *state);
        object.state = state;
    }

    void persistent_id() {
        const PickleValue* id = pop();
        PickleValue& storage = push(Kind::none);
        if (const std::string problem = interpret_storage(*id, storage); !problem.empty()) {
            refuse("{}", problem);
        }
    }

    bool call(u8 opcode) {
        switch (opcode) {
            case GLOBAL: {
                const std::string_view module = line();
                push_global(module, line());
                return true;
            }
            case STACK_GLOBAL: {
                const PickleValue* name = pop();
                const PickleValue* module = pop();
                if (!name->is(Kind::text) || !module->is(Kind::text)) {
                    refuse("the name of a global is not a string");
                }
                push_global(module->text, name->text);
                return true;
            }
            case REDUCE:
            case NEWOBJ:
            case NEWOBJ_EX:
                apply(opcode == NEWOBJ_EX);
                return true;
            case BUILD:
                build();
                return true;
            case BINPERSID:
                persistent_id();
                return true;
            default:
                return false;
        }
    }

    Pickle pickle_;
    std::vector<PickleValue*> stack_;
    std::vector<size_t> marks_;  // size of the stack at each open MARK
    std::unordered_map<u32, PickleValue*> memo_;
    size_t n_items_ = 0;
};

}  // namespace

Pickle parse_pickle(std::span<const std::byte> bytes, size_t& at, const std::string& path) {
    return Machine(bytes, at, path).run();
}

}  // namespace lm::convert
