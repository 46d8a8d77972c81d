# SPDX-License-Identifier: Apache-2.0
"""The part of Chakra's schema that traces use, for the protobuf library of
Google: its numbers and types are facts, this is how they read here."""

try:
    from google.protobuf import descriptor_pb2, descriptor_pool
    from google.protobuf import message_factory
    AVAILABLE = True
except ImportError:
    AVAILABLE = False

MESSAGES = {
    "Int64List": [("values", 1, "int64", "many")],
    "AttributeProto": [
        ("name", 1, "string"), ("doc_string", 2, "string"),
        ("double_val", 3, "double"), ("float_val", 5, "float"),
        ("int32_val", 7, "int32"), ("int64_val", 9, "int64"),
        ("int64_list", 10, "Int64List"), ("uint32_val", 11, "uint32"),
        ("uint64_val", 13, "uint64"), ("bool_val", 27, "bool"),
        ("string_val", 29, "string")],
    "GlobalMetadata": [("version", 1, "string"),
                       ("attr", 2, "AttributeProto", "many")],
    "IOInfo": [("values", 1, "string"), ("shapes", 2, "string"),
               ("types", 3, "string")],
    "Node": [
        ("id", 1, "uint64"), ("name", 2, "string"), ("type", 3, "NodeType"),
        ("ctrl_deps", 4, "uint64", "many"), ("data_deps", 5, "uint64", "many"),
        ("start_time_micros", 6, "uint64"), ("duration_micros", 7, "uint64"),
        ("inputs", 8, "IOInfo"), ("outputs", 9, "IOInfo"),
        ("attr", 10, "AttributeProto", "many")],
}
NODE_TYPES = ["INVALID", "METADATA", "MEM_LOAD", "MEM_STORE", "COMP",
              "COMM_SEND", "COMM_RECV", "COMM_COLL"]

_classes = {}


def _field(to, name, number, kind, many=None):
    field = to.field.add(name=name, number=number)
    field.label = field.LABEL_REPEATED if many else field.LABEL_OPTIONAL
    if kind in MESSAGES:
        field.type, field.type_name = field.TYPE_MESSAGE, f".chakra.{kind}"
    elif kind == "NodeType":
        field.type, field.type_name = field.TYPE_ENUM, ".chakra.NodeType"
    else:
        field.type = getattr(field, f"TYPE_{kind.upper()}")


def _build():
    file = descriptor_pb2.FileDescriptorProto(
        name="chakra.proto", package="chakra", syntax="proto3")
    kinds = file.enum_type.add(name="NodeType")
    for number, name in enumerate(NODE_TYPES):
        kinds.value.add(name=f"{name}_NODE", number=number)
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _field(message, *field)
        if name == "AttributeProto":  # one of its values, be it 0
            message.oneof_decl.add(name="value")
            for field in message.field:
                if field.number > 2:
                    field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    get = getattr(message_factory, "GetMessageClass", None) or \
        message_factory.MessageFactory(pool).GetPrototype
    for name in MESSAGES:
        _classes[name] = get(pool.FindMessageTypeByName(f"chakra.{name}"))


def check(data, kind):
    """Raises where data is no such message, holds what the schema has not, or
    reads otherwise when it is written again."""
    if not _classes:
        _build()
    message = _classes[kind]()
    message.ParseFromString(bytes(data))
    again = message.SerializeToString()
    assert len(again) == len(data), f"{len(data) - len(again)} bytes unknown"
    message.DiscardUnknownFields()
    assert message.SerializeToString() == again, "unknown fields"
    return message
